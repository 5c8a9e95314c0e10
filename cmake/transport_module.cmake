# Transport modules: shared libraries that libeccl.so opens at run time (src/transport/core/transport_module.h). Each
# contains what it uses of the library, and shows one function.
add_library(eccl_module_base STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:eccl_core>)
set_target_properties(eccl_module_base PROPERTIES LINKER_LANGUAGE CXX)

# eccl_add_transport_module(<name> SOURCES ... [LIBRARIES ...]): the target eccl_transport_<name>
function(eccl_add_transport_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  set(map ${PROJECT_SOURCE_DIR}/src/transport/core/transport_module.map)
  add_library(eccl_transport_${name} MODULE ${arg_SOURCES})
  target_include_directories(eccl_transport_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(eccl_transport_${name} PRIVATE eccl_options eccl_module_base Threads::Threads ${arg_LIBRARIES})
  target_link_options(eccl_transport_${name} PRIVATE -Wl,--version-script=${map})
  set_property(TARGET eccl_transport_${name} APPEND PROPERTY LINK_DEPENDS ${map})
  set_target_properties(eccl_transport_${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
