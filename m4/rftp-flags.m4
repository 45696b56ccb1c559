# Copyright the rftp authors. SPDX-License-Identifier: Apache-2.0
#
# Flags are probed one by one, with -Werror: clang only warns about an option
# it does not know, and a compiler that refuses one must not lose the others.

# RFTP_TRY_CFLAG(VARIABLE, FLAG)
# Append FLAG to VARIABLE when the compiler takes it.
AC_DEFUN([RFTP_TRY_CFLAG], [
  AS_VAR_PUSHDEF([rftp_cv], [rftp_cv_cflag_$2])
  AC_CACHE_CHECK([whether $CC accepts $2], [rftp_cv], [
    rftp_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -Werror $2"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
      [AS_VAR_SET([rftp_cv], [yes])], [AS_VAR_SET([rftp_cv], [no])])
    CFLAGS=$rftp_save_CFLAGS
  ])
  AS_VAR_IF([rftp_cv], [yes], [$1="$$1 $2"])
  AS_VAR_POPDEF([rftp_cv])
])

# RFTP_TRY_LDFLAG(VARIABLE, FLAG [, CFLAGS-BESIDE-IT])
# Append FLAG to VARIABLE when a program links with it.
AC_DEFUN([RFTP_TRY_LDFLAG], [
  AS_VAR_PUSHDEF([rftp_cv], [rftp_cv_ldflag_$2])
  AC_CACHE_CHECK([whether $CC links with $2], [rftp_cv], [
    rftp_save_CFLAGS=$CFLAGS
    rftp_save_LDFLAGS=$LDFLAGS
    CFLAGS="$CFLAGS -Werror $3"
    LDFLAGS="$LDFLAGS $2"
    AC_LINK_IFELSE([AC_LANG_PROGRAM()],
      [AS_VAR_SET([rftp_cv], [yes])], [AS_VAR_SET([rftp_cv], [no])])
    CFLAGS=$rftp_save_CFLAGS
    LDFLAGS=$rftp_save_LDFLAGS
  ])
  AS_VAR_IF([rftp_cv], [yes], [$1="$$1 $2"])
  AS_VAR_POPDEF([rftp_cv])
])
