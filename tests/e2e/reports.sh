# shellcheck shell=sh
# Findings of sanitizers and valgrind go to files here, from all processes: the output of background
# processes would be lost. Sourced once $tmp, the script's own directory, exists.
#
# E2E_UNDER is a valgrind command to run rftp and rftpd under.

reports=$tmp/reports
mkdir "$reports" && chmod 1777 "$reports" || exit 99

export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}log_path=$reports/asan"
TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=${top_srcdir:?}/tests/tsan.supp"
export TSAN_OPTIONS="$TSAN_OPTIONS:log_path=$reports/tsan"
UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}:halt_on_error=1"
export UBSAN_OPTIONS="$UBSAN_OPTIONS:log_path=$reports/ubsan"

if [ -n "${E2E_UNDER:-}" ]; then
	mkdir "$tmp/under" || exit 99
	for program in rftp rftpd; do
		printf '#!/bin/sh\nexec %s --log-file=%s/valgrind.%%p %s "$@"\n' "$E2E_UNDER" "$reports" \
			"$(command -v $program)" >"$tmp/under/$program"
		chmod 755 "$tmp/under/$program"
	done
	PATH=$tmp/under:$PATH
fi

# There is no finding yet in the processes that have ended. A thread that has been joined is
# listed by the kernel for a moment more; the leak check says that it could not look at its
# registers, and continues. That is no finding.
no_reports() {
	found=$(find "$reports" -type f ! -name 'valgrind.*' -exec cat {} + |
		sed '/^==[0-9]*==Unable to get registers from thread [0-9]*\.$/d'
		find "$reports" -name 'valgrind.*' \
			-exec awk -f "${top_srcdir:?}/tests/support/valgrind.awk" {} +)
	[ -n "$found" ] || return 0
	printf '%s\n' "$found" | sed 's/^/# /'
	return 1
}
