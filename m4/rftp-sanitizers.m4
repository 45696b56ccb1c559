# Copyright the rftp authors. SPDX-License-Identifier: Apache-2.0

# RFTP_SANITIZERS
# --enable-asan, --enable-tsan, --enable-ubsan, --enable-fuzz.
# Sets and substitutes SAN_CFLAGS and SAN_LDFLAGS (for all objects) and
# FUZZ_LDFLAGS (for fuzz targets); rftp_sanitizers names what is on.
AC_DEFUN([RFTP_SANITIZERS], [
  AC_ARG_ENABLE([asan], [AS_HELP_STRING([--enable-asan],
    [build with the address and leak sanitizers])], [], [enable_asan=no])
  AC_ARG_ENABLE([tsan], [AS_HELP_STRING([--enable-tsan],
    [build with the thread sanitizer (excludes --enable-asan)])],
    [], [enable_tsan=no])
  AC_ARG_ENABLE([ubsan], [AS_HELP_STRING([--enable-ubsan],
    [build with the undefined behaviour sanitizer; a finding ends the program])],
    [], [enable_ubsan=no])
  AC_ARG_ENABLE([fuzz], [AS_HELP_STRING([--enable-fuzz],
    [link the fuzz targets with libFuzzer (needs CC=clang)])],
    [], [enable_fuzz=no])

  rftp_sanitizers=
  SAN_CFLAGS=
  SAN_LDFLAGS=
  FUZZ_LDFLAGS=

  # Both replace malloc and lay a shadow over the same addresses.
  AS_IF([test "x$enable_asan" != xno && test "x$enable_tsan" != xno],
    [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])

  AS_IF([test "x$enable_asan" != xno], [
    SAN_CFLAGS="$SAN_CFLAGS -fsanitize=address"
    SAN_LDFLAGS="$SAN_LDFLAGS -fsanitize=address"
    rftp_sanitizers="$rftp_sanitizers asan"])
  AS_IF([test "x$enable_tsan" != xno], [
    SAN_CFLAGS="$SAN_CFLAGS -fsanitize=thread"
    SAN_LDFLAGS="$SAN_LDFLAGS -fsanitize=thread"
    rftp_sanitizers="$rftp_sanitizers tsan"])
  # Without -fno-sanitize-recover a finding is a line in a log nobody reads
  # and the test passes.
  AS_IF([test "x$enable_ubsan" != xno], [
    SAN_CFLAGS="$SAN_CFLAGS -fsanitize=undefined -fno-sanitize-recover=all"
    SAN_LDFLAGS="$SAN_LDFLAGS -fsanitize=undefined"
    rftp_sanitizers="$rftp_sanitizers ubsan"])
  AS_IF([test "x$enable_fuzz" != xno], [
    SAN_CFLAGS="$SAN_CFLAGS -fsanitize=fuzzer-no-link"
    SAN_LDFLAGS="$SAN_LDFLAGS -fsanitize=fuzzer-no-link"
    FUZZ_LDFLAGS="-fsanitize=fuzzer"
    rftp_sanitizers="$rftp_sanitizers fuzz"])

  AS_IF([test -n "$rftp_sanitizers"], [
    # Stack traces that name every caller.
    SAN_CFLAGS="$SAN_CFLAGS -fno-omit-frame-pointer"
    AC_MSG_CHECKING([whether $CC links with$SAN_LDFLAGS])
    rftp_save_CFLAGS=$CFLAGS
    rftp_save_LDFLAGS=$LDFLAGS
    CFLAGS="$CFLAGS $SAN_CFLAGS"
    LDFLAGS="$LDFLAGS $SAN_LDFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])], [
      AC_MSG_RESULT([no])
      AC_MSG_ERROR([$CC cannot link with$SAN_LDFLAGS; install its sanitizer
    libraries (gcc: libasan, libubsan, libtsan; clang: libclang-rt or
    compiler-rt), or use another compiler; --enable-fuzz needs CC=clang])])
    CFLAGS=$rftp_save_CFLAGS
    LDFLAGS=$rftp_save_LDFLAGS
  ])
  AC_SUBST([SAN_CFLAGS])
  AC_SUBST([SAN_LDFLAGS])
  AC_SUBST([FUZZ_LDFLAGS])
  AM_CONDITIONAL([ENABLE_FUZZ], [test "x$enable_fuzz" != xno])
])
