# eccl_unite(<target>): where ECCL_UNITE is set, the sources of a folder are compiled together, some at a time. Most of
# what a compiler does for one of them is templates and inline functions that the next one needs as well: whole
# builds, as CI makes them, take half as long; a change compiles more. Names in unnamed namespaces, and macros, are
# therefore unique in their folder; only then does adding a file never break another one.
option(ECCL_UNITE "Compile the sources of a folder together: for builds from nothing" OFF)
set(ECCL_UNITE_MOST 8)

function(eccl_unite target)
  if(NOT ECCL_UNITE)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(SORT sources)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "folder${folder}" key)
    math(EXPR batch "0${${key}} / ${ECCL_UNITE_MOST}")
    math(EXPR ${key} "0${${key}} + 1")
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${key}_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
