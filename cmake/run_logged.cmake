# cmake -DLOG=FILE "-DRUN=PROGRAM;ARGUMENT;..." -P run_logged.cmake: what a program prints goes into a file, and is shown
# if it fails.
execute_process(COMMAND ${RUN} OUTPUT_FILE ${LOG} ERROR_FILE ${LOG} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  file(READ ${LOG} text)
  message(FATAL_ERROR "${text}")
endif()
