# `cmake --install` and `cpack -G DEB` (make deb): the programs, what they look for in share/tidemill of their prefix
# (src/core/shipped_files.h), completions and manual pages. What the program says of itself is asked when it is
# installed. Nothing is built then: `make program` builds what is installed.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
add_custom_target(tidemill_programs DEPENDS tidemill tidemill-sim tidemill-bench tidemill_page)

# A build has them beside the program.
set(shipped ${CMAKE_BINARY_DIR}/share/tidemill)
file(MAKE_DIRECTORY ${shipped})
file(CREATE_LINK ${CMAKE_BINARY_DIR}/web ${shipped}/web SYMBOLIC)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/presets/agents ${shipped}/agents SYMBOLIC)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/examples ${shipped}/examples SYMBOLIC)
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python ${shipped}/python SYMBOLIC)

install(TARGETS tidemill RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS tidemill-sim tidemill-bench RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/tidemill)
install(DIRECTORY ${CMAKE_BINARY_DIR}/web DESTINATION ${CMAKE_INSTALL_DATADIR}/tidemill OPTIONAL)
install(DIRECTORY presets/agents examples DESTINATION ${CMAKE_INSTALL_DATADIR}/tidemill USE_SOURCE_PERMISSIONS
  PATTERN __pycache__ EXCLUDE)
install(DIRECTORY python/tidemill DESTINATION ${CMAKE_INSTALL_DATADIR}/tidemill/python PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tidemill RENAME copyright)

set(said ${CMAKE_BINARY_DIR}/generated/said)
install(CODE "
  file(REMOVE_RECURSE ${said})
  file(MAKE_DIRECTORY ${said})
  foreach(shell bash zsh fish)
    execute_process(COMMAND $<TARGET_FILE:tidemill> completion \${shell} OUTPUT_FILE ${said}/\${shell}
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND $<TARGET_FILE:tidemill> man ${said}/man1 COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${said}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tidemill)
install(FILES ${said}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _tidemill)
install(FILES ${said}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME tidemill.fish)
install(DIRECTORY ${said}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tidemill)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The authors of Tidemill <tidemill@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Trains coding agents by asynchronous reinforcement learning")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The sandbox, and a BLAS that is fast; what agents compile, lint and test with; many machines.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "bubblewrap, libopenblas0-pthread")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gcc, libc6-dev, tcc, cppcheck, python3, python3-pytest, git")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "redis-server, rabbitmq-server, openssl")
include(CPack)
