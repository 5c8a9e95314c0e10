# What 'cmake --install' puts where: the library, its headers, and what find_package(eccl) and pkg-config read.
include(CMakePackageConfigHelpers)

set(ECCL_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/eccl)
install(TARGETS eccl EXPORT eccl-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT development)
install(DIRECTORY include/eccl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT eccl-targets NAMESPACE eccl:: DESTINATION ${ECCL_CMAKE_DIR} COMPONENT development)

configure_package_config_file(cmake/eccl-config.cmake.in ${PROJECT_BINARY_DIR}/eccl-config.cmake
                              INSTALL_DESTINATION ${ECCL_CMAKE_DIR})
# As the soname says: before 1.0 a minor version may change the ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/eccl-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/eccl-config.cmake ${PROJECT_BINARY_DIR}/eccl-config-version.cmake
        DESTINATION ${ECCL_CMAKE_DIR} COMPONENT development)

# The prefix relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH ECCL_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/eccl.pc.in ${PROJECT_BINARY_DIR}/eccl.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/eccl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
