#!/bin/sh
# --help and the manual have the same options, for rftp and rftpd. The documents name existing
# tests. TAP.

if rftp --version | grep -q '+asan'; then
	echo "1..0 # SKIP a build with sanitizers would only repeat it"
	exit 0
fi
man=${top_srcdir:-$(dirname "$0")/../..}/man
tmp=$(mktemp -d "${TMPDIR:-/tmp}/help-matches-man.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 99' HUP INT TERM
count=0
failed=0

# Options at the start of help's lines: "  -r, --recursive ...", "      --block SIZE".
help_options() {
	grep -E '^ +(-[A-Za-z0-9], )?--[a-z]' | sed -E 's/^ +//; s/^(-., )?(--[a-z0-9-]+).*/\1\2/'
}

# The same from mdoc items: ".It Fl r , Fl Fl recursive", ".It Fl Fl block Ar size".
man_options() {
	sed -nE 's/^\.It Fl ([A-Za-z0-9]) , Fl Fl ([a-z0-9-]+).*/-\1, --\2/p
		s/^\.It Fl Fl ([a-z0-9-]+).*/--\1/p' "$1"
}

# say NAME: "ok" if the two lists in $tmp are equal
say() {
	count=$((count + 1))
	if [ ! -s "$tmp/help" ] || ! diff "$tmp/help" "$tmp/man" >"$tmp/diff"; then
		sed 's/^</# only in --help:/; s/^>/# only in the manual:/; s/^[^#]/# &/' "$tmp/diff"
		printf 'not '
		failed=1
	fi
	echo "ok $count - $1"
}

skip() {
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# program NAME SECTION
program() {
	if [ ! -f "$man/$1.$2" ]; then
		skip "$1" "there is no $1($2) yet"
		return
	fi
	"$1" --help | help_options | LC_ALL=C sort >"$tmp/help"
	# Commands with many options have pages of their own.
	cat "$man/$1".[18] "$man/$1"-bench.1 "$man/$1"-shards.1 "$man/$1"-sync.1 "$man/$1"-verify.1 >"$tmp/pages" 2>/dev/null
	man_options "$tmp/pages" | LC_ALL=C sort >"$tmp/man"
	say "$1 --help and $1($2) have the same options"
}

# The commands that a program's help lists.
commands_of() { "$1" --help | sed -nE '/^Commands:/,/^$/s/^  ([a-z-]+) .*/\1/p'; }

# tool NAME SECTION: check a program whose commands have options of their own
tool() {
	{
		"$1" --help
		commands_of "$1" | while read -r command; do "$1" "$command" --help; done
	} | help_options | LC_ALL=C sort -u >"$tmp/help"
	man_options "$man/$1.$2" | LC_ALL=C sort -u >"$tmp/man"
	say "the help of $1's commands and $1($2) have the same options"
}

# The help of each command has no option that the whole help lacks; together with the options
# without a command they have all.
commands() {
	rftp --help | help_options | LC_ALL=C sort >"$tmp/man"
	commands_of rftp >"$tmp/commands"
	{
		rftp --help | sed -n '/^Shell options:/,/^$/p'
		while read -r command; do rftp "$command" --help; done <"$tmp/commands"
	} | help_options | LC_ALL=C sort -u >"$tmp/help"
	say "the options of rftp's commands are those of rftp"
}

# flags NAME [COMMAND...]: it and its commands accept -v, -q and -h, also before the command
flags() {
	program=$1
	shift
	for command in "" "$@"; do
		# shellcheck disable=SC2086 # no command is no word
		for words in "$command -v -q -h" "-v --quiet $command --help" \
			"-q -h --verbose $command"; do
			"$program" $words
		done
	done >"$tmp/help" 2>&1
	for command in "" "$@"; do
		for _ in 1 2 3; do "$program" ${command:+"$command"} --help; done
	done >"$tmp/man"
	say "$program ${1:+and its commands }accept -v, -q and -h"
}

# Each command has its line in the SYNOPSIS.
synopsis() {
	cp "$tmp/commands" "$tmp/help"
	sed -nE '/^\.Sh SYNOPSIS/,/^\.Sh DESC/s/^\.Cm ([a-z-]+)$/\1/p' "$man/rftp.1" >"$tmp/man"
	say "rftp(1) shows each command, in the order of --help"
}

# The headings are the same, as they are shown: mdoc takes some words for its own.
headings() {
	command -v mandoc >/dev/null || {
		skip "the headings of rftp(1)" "there is no mandoc"
		return
	}
	rftp --help | sed -nE 's/^([A-Z][a-z -]+):$/\1/p' | grep -v '^Commands$' >"$tmp/help"
	mandoc -T ascii "$man/rftp.1" | sed 's/.\x08//g' | sed -n '/^OPTIONS/,/^SERVERS/s/^   \([^ ].*\)$/\1/p' >"$tmp/man"
	say "rftp(1) has the headings of --help"
}

# Each command of the shell has its item in rftp-shell(1), in the order of help, with its other
# names.
shell() {
	rftp -c help | sed -nE 's/^  ([a-z]+) .*/\1/p' >"$tmp/commands"
	while read -r command; do
		echo "$command"
		rftp -c "help $command" | sed -n 's/^Also called: //p'
	done <"$tmp/commands" | tr ' ' '\n' | sed 's/^?$//; /^$/d' >"$tmp/help"
	sed -nE '/^\.Sh COMMANDS/,/^\.Sh JSON/ {
		s/^\.It Cm ([a-z]+).*/\1/p
		s/^\.Pq Cm ([a-z].*)/\1/p
	}' "$man/rftp-shell.1" | sed 's/ , / /g' | tr ' ' '\n' >"$tmp/man"
	say "rftp-shell(1) has each command of the shell"
}

# The tests that documents name are there.
named_tests() {
	for document in SECURITY.md docs/RELIABILITY.md; do
		grep -oE 'tests/[a-z0-9]+/[a-z0-9-]+\.(sh|c)' "$man/../$document" | sort -u >"$tmp/help"
		while IFS= read -r name; do
			if [ -e "$man/../$name" ]; then echo "$name"; fi
		done <"$tmp/help" >"$tmp/man"
		say "each test that $document names is there"
	done
}

program rftp 1
commands
named_tests
synopsis
headings
shell
program rftpd 8
tool rftp-numa 1
tool rftp-iser 8
tool rftp-slurm 1
flags rftpd
for name in rftp rftp-numa rftp-iser rftp-slurm; do
	# shellcheck disable=SC2046 # words
	flags $name $(commands_of $name)
done
echo "1..$count"
exit $failed
