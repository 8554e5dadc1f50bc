# Has a target's sources compiled several at a time: most of what the compiler reads and instantiates is the same for them all. Names in
# their unnamed namespaces differ, so that it does not matter which are compiled together.
function(moesh_compile_together target most)
  if(MOESH_SANITIZE)
    math(EXPR most "${most} / 4")  # forty tests would take 4 GB and three minutes
  endif()
  get_target_property(sources ${target} SOURCES)
  set(count 0)
  foreach(source IN LISTS sources)
    get_source_file_property(is_alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(NOT is_alone)
      math(EXPR group "${count} / ${most}")
      math(EXPR count "${count} + 1")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MOESH_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()
