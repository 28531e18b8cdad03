# The files that `cmake --install` and `cpack -G DEB` take, with their places. Build the target `installable` first.
include(GNUInstallDirs)
set(OUTRIDER_MAINTAINER "Outrider's maintainers <maintainers@outrider.invalid>" CACHE STRING "Who answers for a package, as Debian writes it")

# Installing builds nothing, so that a package needs no tests to be built.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(programs outrider outrider-coordinator outrider-drafter)
if(OUTRIDER_VERIFIER)
  list(APPEND programs outrider-verifier)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
add_custom_target(installable DEPENDS ${programs})

# Manual pages and completions come from the option tables, by running the programs. Programs under a sanitizer, and those of another
# processor, are not for users of this machine.
set(OUTRIDER_MANUAL "")
if(NOT OUTRIDER_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  set(OUTRIDER_MANUAL ${CMAKE_BINARY_DIR}/manual)
  list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE program_files)
  add_custom_command(OUTPUT ${OUTRIDER_MANUAL}/zsh/_outrider
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${OUTRIDER_MANUAL}
    COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/launch/manual.py ${OUTRIDER_MANUAL} ${program_files}
    DEPENDS ${programs} ${PROJECT_SOURCE_DIR}/launch/manual.py VERBATIM)
  add_custom_target(manual ALL DEPENDS ${OUTRIDER_MANUAL}/zsh/_outrider)
  add_dependencies(installable manual)
  install(DIRECTORY ${OUTRIDER_MANUAL}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(DIRECTORY ${OUTRIDER_MANUAL}/bash/ DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()

install(DIRECTORY launch/models DESTINATION ${CMAKE_INSTALL_DATADIR}/outrider FILES_MATCHING PATTERN "*.gguf")
install(FILES LICENSE README.md ARCHITECTURE.md SECURITY.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/outrider)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/outrider RENAME copyright) # its name in Debian
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/outrider)
install(DIRECTORY launch/ops/ launch/grafana launch/prometheus DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/outrider/examples
  PATTERN systemd EXCLUDE)

# This depends on the prefix that is named at installation.
install(CODE "set(OUTRIDER_SOURCE \"${PROJECT_SOURCE_DIR}\")\nset(OUTRIDER_MANUAL \"${OUTRIDER_MANUAL}\")\nset(OUTRIDER_PROGRAMS ${programs})\nset(OUTRIDER_BINDIR \"${CMAKE_INSTALL_BINDIR}\")\nset(OUTRIDER_STAGE \"${CMAKE_BINARY_DIR}/install\")")
install(SCRIPT cmake/install_prefix.cmake)

# The Debian package.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME outrider)
set(CPACK_PACKAGE_CONTACT "${OUTRIDER_MAINTAINER}")
set(CPACK_PACKAGE_VENDOR Outrider)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed speculative decoding, exact to the token")
set(CPACK_PACKAGE_DESCRIPTION "A small draft model near the user guesses the next tokens as a tree, and a large target model checks the whole tree in one \
forward pass. What comes out is exactly the text that the target would have written alone.\n\nThe package has the command, the three processes of a cluster, \
their systemd units (not enabled: name the models in /etc/outrider/outrider.env first) and a pair of small demonstration models.")
# The prefix must be the real one while files are installed: units name their programs by it.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(OUTRIDER_VERIFIER)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS openmpi-bin) # mpirun, which starts the verifier's ranks
endif()
file(WRITE ${CMAKE_BINARY_DIR}/install/conffiles "/etc/outrider/outrider.env\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/install/conffiles ${PROJECT_SOURCE_DIR}/launch/debian/postinst
  ${PROJECT_SOURCE_DIR}/launch/debian/prerm ${PROJECT_SOURCE_DIR}/launch/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
