# escalier_module(<name> SOURCES … [MODULES lower modules…] [LIBRARIES outside libraries…])
# One static library per module, escalier_<name>. MODULES repeats the ladder of lib/README.md; scripts/lint checks both.
# escalier_test(<name> LABEL <folder under tests/> SOURCES … LIBRARIES … [RANKS n])
# One GoogleTest binary; with RANKS it is started by mpirun as one CTest case.

# Of a command or a test, which spend their time in the modules: half of its building time is optimisation.
define_property(TARGET PROPERTY ESCALIER_GLUE BRIEF_DOCS "Hardly optimised" FULL_DOCS "-O1 in releases, -Og under sanitizers")

add_library(escalier_flags INTERFACE)
target_compile_options(escalier_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror=return-type;-march=x86-64-v3>"
                       $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>  # false positives of GCC 12 on strings
                       $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:$<IF:$<BOOL:$<TARGET_PROPERTY:ESCALIER_GLUE>>,-O1,-O3>>)
target_include_directories(escalier_flags INTERFACE ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR})
if(ESCALIER_SANITIZE)
  target_compile_options(escalier_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer
                         -fno-sanitize-recover=undefined $<$<BOOL:$<TARGET_PROPERTY:ESCALIER_GLUE>>:-Og>)
  target_link_options(escalier_flags INTERFACE -fsanitize=address,undefined)
endif()

if(ESCALIER_FUZZ)
  target_compile_options(escalier_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer
                         -fno-sanitize-recover=undefined)
  target_link_options(escalier_flags INTERFACE -fsanitize=address,undefined)
endif()

function(escalier_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;MODULES;LIBRARIES" ${ARGN})
  add_library(escalier_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(escalier_${name} PUBLIC escalier_flags)
  foreach(module ${ARG_MODULES})
    target_link_libraries(escalier_${name} PUBLIC escalier_${module})
  endforeach()
  target_link_libraries(escalier_${name} PUBLIC ${ARG_LIBRARIES})
endfunction()

function(escalier_test name)
  cmake_parse_arguments(ARG "" "LABEL;RANKS" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest)
  set_target_properties(${name} PROPERTIES ESCALIER_GLUE ON)
  if(ARG_RANKS)
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/scripts/mpirun -n ${ARG_RANKS} $<TARGET_FILE:${name}>)
    set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 300 PROCESSORS 2)
  else()
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
    include(GoogleTest)
    gtest_discover_tests(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 300 DISCOVERY_MODE PRE_TEST
                         DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
