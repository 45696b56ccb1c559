# Copyright the rftp authors. SPDX-License-Identifier: Apache-2.0

# RFTP_OPTIONAL(PREFIX, NAME, PKG-CONFIG-SPEC, WHAT-IT-IS-FOR)
# --with-NAME=auto|yes|no. Sets PREFIX_CFLAGS, PREFIX_LIBS, have_NAME (yes or
# no), the conditional HAVE_PREFIX and, when found, defines HAVE_PREFIX. Asked
# for by name and missing is an error; a build that silently lacks what its
# user asked for is worse than none.
AC_DEFUN([RFTP_OPTIONAL], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=auto|yes|no],
    [$4 @<:@auto@:>@])], [], [with_$2=auto])
  have_$2=no
  AS_CASE([$with_$2],
    [no], [$1_CFLAGS=; $1_LIBS=],
    [yes|auto], [
      PKG_CHECK_MODULES([$1], [$3], [have_$2=yes], [
        AS_IF([test "x$with_$2" = xyes],
          [AC_MSG_ERROR([--with-$2 was given, but pkg-config does not find $3: $$1_PKG_ERRORS])])
        $1_CFLAGS=
        $1_LIBS=])],
    [AC_MSG_ERROR([--with-$2=$with_$2: say auto, yes or no])])
  AS_IF([test "$have_$2" = yes],
    [AC_DEFINE([HAVE_$1], [1], [Define when $2 was found: $4.])])
  AC_SUBST([$1_CFLAGS])
  AC_SUBST([$1_LIBS])
  AM_CONDITIONAL([HAVE_$1], [test "$have_$2" = yes])
])

# RFTP_OPTIONAL_LIB(PREFIX, NAME, HEADER, FUNCTION, LIBS..., WHAT-IT-IS-FOR)
# The same for a library without a .pc file: HEADER is there, and FUNCTION links with one of
# LIBS, a list of words in brackets that are tried in turn.
AC_DEFUN([RFTP_OPTIONAL_LIB], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=auto|yes|no],
    [$6 @<:@auto@:>@])], [], [with_$2=auto])
  have_$2=no
  $1_LIBS=
  AS_CASE([$with_$2],
    [no], [],
    [yes|auto], [
      AC_CHECK_HEADER([$3], [
        rftp_save_LIBS=$LIBS
        m4_foreach([rftp_libs], [$5], [AS_IF([test "$have_$2" = no], [
          AC_MSG_CHECKING([for $4 in rftp_libs])
          LIBS="rftp_libs $rftp_save_LIBS"
          AC_LINK_IFELSE([AC_LANG_CALL([], [$4])],
            [AC_MSG_RESULT([yes])
             have_$2=yes
             $1_LIBS="rftp_libs"],
            [AC_MSG_RESULT([no])])
        ])
        ])
        LIBS=$rftp_save_LIBS])
      AS_IF([test "$have_$2$with_$2" = noyes],
        [AC_MSG_ERROR([--with-$2 was given, but there is no $3, or no library that has $4])])],
    [AC_MSG_ERROR([--with-$2=$with_$2: say auto, yes or no])])
  AS_IF([test "$have_$2" = yes],
    [AC_DEFINE([HAVE_$1], [1], [Define when $2 was found: $6.])])
  AC_SUBST([$1_LIBS])
  AM_CONDITIONAL([HAVE_$1], [test "$have_$2" = yes])
])
