# Has a target's sources compiled several of a folder at a time: most of what the compiler reads and instantiates is the same for them
# all. Names in their unnamed namespaces differ within a folder, so that it does not matter which are compiled together.
function(moesh_compile_together target most)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND of_${folder} ${source})
    list(LENGTH of_${folder} count)
    math(EXPR group "(${count} - 1) / ${most}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MOESH_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()
