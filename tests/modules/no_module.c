/* A shared library that is no transport module. */
int eccl_test_nothing(void);
int eccl_test_nothing(void) {
  return 0;
}
