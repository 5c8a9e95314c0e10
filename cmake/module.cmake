# Modules: shared libraries that libeccl.so opens at run time (src/base/module.h). Each contains what it uses of the
# library, and shows one function.
add_library(eccl_module_base STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:eccl_core>)
set_target_properties(eccl_module_base PROPERTIES LINKER_LANGUAGE CXX)

# eccl_add_module(<target> SOURCES ... [LIBRARIES ...])
function(eccl_add_module target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  set(map ${PROJECT_SOURCE_DIR}/src/base/module.map)
  add_library(${target} MODULE ${arg_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE eccl_options eccl_module_base Threads::Threads ${CMAKE_DL_LIBS} ${arg_LIBRARIES})
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  if(NOT ECCL_SANITIZE)  # what it needs beyond these libraries it has to name
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  eccl_unite(${target})
endfunction()

# eccl_add_transport_module(<name> SOURCES ... [LIBRARIES ...]): the target eccl_transport_<name>
function(eccl_add_transport_module name)
  eccl_add_module(eccl_transport_${name} ${ARGN})
endfunction()
