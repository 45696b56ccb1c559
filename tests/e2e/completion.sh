#!/bin/bash
# shellcheck disable=SC2034,SC2154,SC2317 # lib.sh and bash know them
# bash's completions for rftp, rftpd, rftp-numa, rftp-iser and rftp-slurm: all commands and options that
# --help has, words of their arguments, local names. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
skip_with_sanitizers
. "$lib/completion.bash"

mkdir "$tmp/work" && cd "$tmp/work" || exit 99
mkdir dir && touch file 'two words' dir/inside .hidden

# offered WORD...: print the completions of the last word, sorted; words as bash splits them
offered() {
	bash --norc -c '
		. "$1" && shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		fn=$(complete -p "$1" | sed "s/.*-F \([^ ]*\) .*/\1/")
		"$fn" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
		[ ${#COMPREPLY[@]} -eq 0 ] || printf "%s\n" "${COMPREPLY[@]}"' \
		bash "$top_srcdir/completion/$1" "$@" 2>&1 | LC_ALL=C sort
}
# offers EXPECTED WORD...: the completions are the words of EXPECTED
offers() {
	local expected=$1
	shift
	diff <(tr ' ' '\n' <<<"$expected" | sed '/^$/d' | LC_ALL=C sort) <(offered "$@") | comment
	[ "${PIPESTATUS[0]}" -eq 0 ]
}
commands=$(commands_of rftp)

check "there are commands" test "$(wc -w <<<"$commands")" -ge 9
check "the commands" offers "$commands" rftp ''
check "one of them" offers put rftp pu
check "all options of rftp" offers "$(options_of rftp)" rftp -
check "which are many" test "$(offered rftp -- | wc -l)" -gt 40
check "all options of rftpd" offers "$(options_of rftpd)" rftpd -
for c in $commands; do
	check "the options of rftp $c" offers "$(options_of rftp "$c")" rftp "$c" -
done
check "an option in front does not hide the command" offers "$(options_of rftp ls)" rftp -v ls -
check "one option" offers "--progress --prot" rftp put --pro
check "words of an option" offers "clear safe private" rftp put --prot ''
check "the one that is meant" offers "private" rftp put --prot pr
check "behind =" offers "clear safe private" rftp put --prot =
check "and further" offers "safe" rftp put --prot = s
check "of rftpd" offers "nodelete off ro rw upload" rftpd --anonymous ''
check "by its letter" offers "nodelete off ro rw upload" rftpd -a ''
check "a node" offers "auto off nic storage node:" rftp put --numa ''
check "on or off" offers "on off" rftp bench --crc ''
check "nothing for a number" offers "" rftp put --channels ''
check "a file" offers "file" rftp put --ca f
check "a directory" offers "dir" rftpd --root ''
check "local names for put" test "$(offered rftp put '')" = "$(printf '.hidden\ndir\nfile\ntwo words')"
check "below a directory" offers "dir/inside" rftp get dir/
check "none for what is on the server" offers "" rftp rm ''
mkdir -p "$HOME/.config/rftp"
printf 'prot safe\n[host h]\n[dtn1]\nurl = a:b\n [ far ] # one\nurl = a:c\n' \
	>"$HOME/.config/rftp/rftp.conf"
check "sections of rftp.conf" offers "dtn1: far:" rftp rm ''
check "one of them" offers "dtn1:" rftp ls d
check "for put, with local names" offers "dir dtn1:" rftp put file d
rm "$HOME/.config/rftp/rftp.conf"

# Colons break words in bash.
mkdir -p "$tmp/root/data/run 1" "$tmp/root/da"
touch "$tmp/root/data/run 1/a%b" "$tmp/root/data/raw" "$tmp/root/$(printf 'new\nline')"
start_server there --root "$tmp/root" --anonymous ro
run rftp ls --accept-new "$url"
check "ls -p marks directories" test "$(rftp ls -1p "$url/data")" = "$(printf 'raw\nrun 1/')"
printf '[near]\nurl = %s\n' "$url" >"$HOME/.config/rftp/rftp.conf"
at=//127.0.0.1
check "names on a server" offers "$port/da/ $port/data/" rftp ls rftp : $at : "$port/da"
check "below a directory there" test "$(offered rftp get rftp : $at : "$port/data/r")" = \
	"$(printf '%s\n' "$port/data/raw" "$port/data/run\\ 1/")"
check "with a blank, and a percent sign" test "$(offered rftp rm rftp : $at : "$port/data/run\\ 1/a")" = \
	"$port/data/run\\ 1/a%25b"
check "of a section" offers "da/ data/" rftp put file near : d
check "of a section, all" test "$(offered rftp ls near : | wc -l)" = 3
check "behind the section's colon and a directory" offers "data/raw" rftp rm near : data/ra
rm "$HOME/.ssh/known_hosts" "$HOME/.config/rftp/known_hosts" 2>/dev/null
rm "$HOME/.config/rftp/rftp.conf"

# ---- rftp-numa ----

commands=$(commands_of rftp-numa)
check "rftp-numa has commands" test "$(wc -w <<<"$commands")" -ge 5
check "all are offered" offers "$commands" rftp-numa ''
check "one of its commands" offers "affinity" rftp-numa a
check "its own options" offers "-h --help -V --version" rftp-numa -
for c in $commands; do
	check "the options of rftp-numa $c" offers "$(options_of rftp-numa "$c")" rftp-numa "$c" -
	check "which go with --json" offers "--json" rftp-numa "$c" --js
	check "and no other words" offers "" rftp-numa "$c" ''
done
check "read or write" offers "read write" rftp-numa affinity --op ''
check "or behind =" offers "write" rftp-numa model --op = w
check "what is to be least" offers "makespan sum" rftp-numa plan --objective ''
check "a problem's file" offers "file" rftp-numa plan --problem f
check "a model's" offers "file" rftp-numa model --save f
check "a directory to measure on, or a file" test "$(offered rftp-numa affinity --path '')" = "$(printf '.hidden\ndir\nfile\ntwo words')"
check "another machine's sysfs" offers "dir" rftp-numa topo --sysfs ''
check "nothing for a node" offers "" rftp-numa affinity --device-node ''
check "nor behind what has no argument" offers "" rftp-numa affinity --buffered ''

# ---- rftp-iser ----

commands=$(commands_of rftp-iser)
check "rftp-iser has commands" test "$(wc -w <<<"$commands")" -ge 1
check "all are offered" offers "$commands" rftp-iser ''
check "one of its commands" offers "plan" rftp-iser pl
check "its own options" offers "-h --help -V --version" rftp-iser -
for c in $commands; do
	check "the options of rftp-iser $c" offers "$(options_of rftp-iser "$c")" rftp-iser "$c" -
done
check "a file that says what is wanted" test "$(offered rftp-iser plan '')" = "$(printf '.hidden\ndir\nfile\ntwo words')"
check "how it is written" offers "through back" rftp-iser plan --write ''
check "a secret is generated" offers "generate" rftp-iser plan --chap g
check "or in a file" offers "file" rftp-iser plan --mutual-chap f
check "a plan to check" offers "file" rftp-iser plan --check f
check "where secrets go" offers "dir" rftp-iser plan --secrets ''
check "a device" offers "/dev/null" rftp-iser plan --block /dev/nul
check "a file of a size" offers "file" rftp-iser plan --file f
check "nothing for a size" offers "" rftp-iser plan --tmpfs ''
check "the plan to apply" offers "file" rftp-iser apply fil
check "the plan to log in by" offers "file" rftp-iser login --plan f
check "or what a stripe is made by" offers "md lvm" rftp-iser login --stripe ''
check "no address that is not known" offers "" rftp-iser login ''

mkdir -p "$tmp/state/initiator" "$tmp/other"
touch "$tmp/state/"{mem1.json,mem1.lio.json,store.1.json,lock,"odd name.json",.json} "$tmp/other/third.json"
export RFTP_ISER_STATE=$tmp/state
for c in status verify remove; do
	check "$c: the plans that were applied" offers "mem1 store.1" rftp-iser $c ''
	check "$c: one of them" offers "mem1" rftp-iser $c --json m
	check "$c: those of another directory" offers "third" rftp-iser $c --state "$tmp/other" ''
	check "$c: and so" offers "third" rftp-iser $c --state = "$tmp/other" t
	check "$c: none are there" offers "" rftp-iser $c --state "$tmp/nowhere" ''
done

# ---- rftp-slurm ----

commands=$(commands_of rftp-slurm)
check "rftp-slurm has commands" test "$(wc -w <<<"$commands")" -ge 7
check "all are offered" offers "$commands" rftp-slurm ''
for c in $commands; do
	check "the options of rftp-slurm $c" offers "$(options_of rftp-slurm "$c")" rftp-slurm "$c" -
done
check "local names to put" test "$(offered rftp-slurm put --nodes 2 '')" = "$(printf '.hidden\ndir\nfile\ntwo words')"
copies=$HOME/.local/state/rftp/slurm
mkdir -p "$copies"/{20261128-1-ab,20261129-2-cd,none} "$tmp/states/20261130-3-ef"
touch "$copies"/{20261128-1-ab,20261129-2-cd}/job.json "$tmp/states/20261130-3-ef/job.json"
for c in status wait cancel retry; do
	check "$c: the copies" offers "20261128-1-ab 20261129-2-cd" rftp-slurm $c ''
	check "$c: one of them" offers "20261129-2-cd" rftp-slurm $c --json 20261129
	check "$c: those of another directory" offers "20261130-3-ef" rftp-slurm $c --dir "$tmp/states" ''
done

# As it is typed.
if command -v python3 >/dev/null; then
	cat >"$tmp/rc" <<RC
PS1='> '
. '$top_srcdir/completion/rftp'
RC
	TERM=dumb "$lib/on-terminal" "$tmp/t" '> $' 'send:rftp pu\tfi\t--verb\t--prot pri\t' 'private' 'send:\x15exit 7\n' -- \
		bash --noprofile --rcfile "$tmp/rc" -i
	check "typed with tabs" test $? -eq 7
	check "it comes out whole" grep -q 'rftp put file --verbose --prot private' "$tmp/t"
fi
finish
