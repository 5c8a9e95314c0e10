# eccl_unite(<target>): unless ECCL_UNITE is OFF, the sources of a folder are compiled together, some at a time. Most of
# what a compiler does for one of them is templates and inline functions that the next one needs as well: builds from
# nothing take half as long; a change compiles more. Names in unnamed namespaces, and macros, are therefore to be
# unique in their folder: the compiler says where two that are compiled together are not.
option(ECCL_UNITE "Compile the sources of a folder together: OFF for working on them" ON)
set(ECCL_UNITE_MOST 8)

function(eccl_unite target)
  if(NOT ECCL_UNITE)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(origin ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(SORT sources)
  foreach(source ${sources})
    get_filename_component(source ${source} ABSOLUTE BASE_DIR ${origin})
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "folder${folder}" key)  # counts the folder's sources, from nothing
    math(EXPR batch "0${${key}} / ${ECCL_UNITE_MOST}")
    math(EXPR ${key} "0${${key}} + 1")
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${key}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
