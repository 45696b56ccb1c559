#!/bin/bash
# shellcheck disable=SC2034,SC2154,SC2317 # lib.sh knows them
# rftp.conf: every key of rftp.conf(5) is accepted with every value that it names, and an error is
# reported with file and line. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need setsid

limit=10
man=$top_srcdir/man/rftp.conf.5
conf=$tmp/rftp.conf
: >"$tmp/empty" && chmod 600 "$tmp/empty"
# No server listens there: status 3 means that the whole file was read, and is correct.
nowhere=rftp://127.0.0.1:1/

# read_conf: run rftp with $conf
read_conf() { run rftp ls --config "$conf" "$nowhere"; }
# Keys that need another key.
declare -A beside=([key]="cert $tmp/empty")
accepts() { # LINE [KEY]
	printf '%s\n%s\n' "${beside[${2:-none}]-}" "$1" >"$conf"
	read_conf
	fails_with 3 'refused'
}

# An example for each kind of value.
value_of() {
	case $1 in
	list) echo eth0,eth1 ;;
	n) echo 4 ;;
	percent) echo 50 ;;
	size) echo 4M ;;
	where) echo node:0 ;;
	rate) echo 10Gbit ;;
	file) echo "$tmp/empty" ;;
	time) echo 20s ;;
	command) echo '"ssh -v"' ;;
	path) echo /opt/bin/rftpd ;;
	directory) echo .trash ;;
	logfile) echo "$tmp/logfile" ;;
	name) echo SHA-256 ;;
	esac
}

# "key Cm a | b" or "key Ar kind" or "key"
keys=0
while read -r key kind rest; do
	keys=$((keys + 1))
	case $key:$kind in
	verbose:) values=(0 1 2 yes no) ;;
	*:) values=(yes no) ;;
	*:Cm) read -ra values <<<"${rest//|/ }" ;;
	*:Ar) values=("$(value_of "$rest")") ;;
	esac
	for value in "${values[@]}"; do
		check "$key $value" accepts "$key $value" "$key"
		check "$key = $value, for a host" accepts "[host 127.*]
$key = $value" "$key"
	done
done < <(sed -n '/^\.Sh KEYS/,/^\.Sh FILES/s/^\.It Cm //p' "$man")
check "the manual has many keys" test $keys -ge 35

sed -n '/^\.Sh EXAMPLES/,/^\.Ed/ { /^\./!p }' "$man" | sed 's/\\e/\\/g' >"$conf"
check "the manual's example is there" test "$(grep -c . "$conf")" -ge 8
read_conf
check "it is accepted" fails_with 3 'refused'

# wrong LINE TEXT COMMENT: in line 3 of the file
wrong() {
	printf '# one\nprot safe\n%b\nack written\n' "$1" >"$conf"
	read_conf
	check "\"$1\"" fails_with 2 "$conf:3: .*$2"
}
wrong 'nonsense yes' 'no setting "nonsense"'
wrong 'Prot safe' 'no setting "Prot" \(did you mean "prot"\?\)'
wrong 'recursive yes' 'for the command line only'
wrong 'help yes' 'for the command line only'
wrong 'config /dev/null' 'for the command line only'
wrong 'prot' 'prot.*value'
wrong 'prot =' 'prot.*value'
wrong 'prot nonsense' 'prot: must be clear, safe or private, not "nonsense"'
wrong 'prot safe private' '"?prot'
wrong 'prot "safe' 'closing " is missing'
wrong 'channels many' 'channels: must be a number from 1 to 256, not "many"'
wrong 'channels 0' 'channels: must be a number from 1 to 256, not "0"'
wrong 'channels 100000' 'channels: must be a number from 1 to 256, not "100000"'
wrong 'block 1' 'block: must be a size from 64K to 64M, not "1"'
wrong 'rate fast' 'rate: must be a rate such as 100M or 10Gbit, not "fast"'
wrong 'connect-timeout soon' 'connect-timeout: must be a time from 100ms to 1h, not "soon"'
wrong 'json perhaps' 'json: must be yes or no, not "perhaps"'
wrong '= yes' 'no key'
wrong '[host' 'closing \]'
wrong '[]' 'no name'
wrong '[nonsense x]' 'there is no section \[nonsense x\]'
wrong '[host]' 'there is no section \[host\]'
printf '[hosts a]\n' >"$conf"
read_conf
check "a section that makes no sense, and is empty" fails_with 2 "$conf:1: there is no section"
printf '\n[host other.example.org]\n\nprot nonsense\n' >"$conf"
read_conf
check "in a section of another host, too" fails_with 2 "$conf:4: prot: "
printf 'prot safe\0\n' >"$conf"
read_conf
check "a NUL" fails_with 2 "$conf: .*NUL"
run rftp ls --config "$tmp/nothing" "$nowhere"
check "a file that is not there" fails_with 2 "$tmp/nothing.*No such file"
run rftp ls --config "$tmp" "$nowhere"
check "a directory" fails_with 2 "$tmp.*directory"
mkdir -p "$HOME/.config/rftp"
echo 'prot nonsense' >"$HOME/.config/rftp/rftp.conf"
run rftp ls "$nowhere"
check "the user's own file" fails_with 2 "$HOME/.config/rftp/rftp.conf:1: prot"
printf 'retries 3\nprot safe\n' >"$HOME/.config/rftp/rftp.conf"
run rftp ls "$nowhere"
check "which is read" fails_with 3 'refused'

# ---- the environment ----

printf 'channels 3\n\n[host 127.*]\nprot safe\nnetrc "a b"\n' >"$conf"
export RFTP_RATE=10M RFTP_RETRIES=4 RFTP_SKIP_SAME=yes RFTP_NUMA=off RFTP_STALL=
run rftp ls --retries 9 --config "$conf" "$nowhere" --show-config
check "--show-config" status_is 0
sort "$tmp/out" >"$tmp/sorted"
check "shows the sources" diff - "$tmp/sorted" <<END
channels 3  # $conf:1
netrc "a b"  # $conf:5
numa off  # RFTP_NUMA
prot safe  # $conf:4
rate 10485760  # RFTP_RATE
retries 9  # command line
skip-same yes  # RFTP_SKIP_SAME
END
sed 's/ # .*//' "$tmp/sorted" >"$tmp/again"
unset RFTP_RATE RFTP_RETRIES RFTP_SKIP_SAME RFTP_NUMA RFTP_STALL
run rftp ls --config "$tmp/again" "$nowhere" --show-config
check "which is a rftp.conf" diff "$tmp/again" <(sed 's/ # .*//' "$tmp/out" | sort)
printf 'retries 3\nprot safe\n' >"$HOME/.config/rftp/rftp.conf"
run rftp --show-config
check "the user's own file is a source" \
	grep -qx "prot safe  # $HOME/.config/rftp/rftp.conf:2" "$tmp/out"
run env -u HOME rftp --show-config --prot safe
check "without a home" grep -qx "prot safe  # command line" "$tmp/out"
run env RFTP_CHANNELS=many rftp ls "$nowhere"
check "a wrong variable is named" fails_with 2 '^rftp: RFTP_CHANNELS: must be a number'
run env RFTP_DRY_RUN=yes rftp put -r "$tmp" "$nowhere"
check "a variable of an option that only the command line takes is an error" \
	fails_with 2 '^rftp: RFTP_DRY_RUN: --dry-run is for the command line only'
run env RFTP_CONNECT_TIMEOUT=0 rftp -c 'ls' "$nowhere"
check "in the shell, too" fails_with 2 '^rftp: RFTP_CONNECT_TIMEOUT: must be a time'

# ---- sections that name servers ----

mkdir -p "$tmp/root/base/in" "$tmp/root/other" "$tmp/tree"
echo one >"$tmp/tree/one"
start_server main --root "$tmp/root" --anonymous rw --third-party all
cat >"$HOME/.config/rftp/rftp.conf" <<END
retries 3
[dtn]
channels = 3
url = $url/base
prot clear
[near.1]
url $url/
[host 127.*]
prot safe
accept-new yes
[shut]
url rftp://127.0.0.1:1
rate 3M
END

run rftp put -r "$tmp/tree" dtn:
check "put -r x NAME:" test "$status" -eq 0 -a -f "$tmp/root/base/tree/one"
run rftp put --json "$tmp/tree/one" dtn:/in/two
check "put x NAME:/path" same "$tmp/tree/one" "$tmp/root/base/in/two"
check "with the section's options" test "$(summary prot)" = clear
RFTP_CHANNELS=2 run rftp put --retries 1 x dtn:in/two --show-config
check "below the command line and variables, above all else" diff "$tmp/out" - <<END
channels 2  # RFTP_CHANNELS
prot clear  # $HOME/.config/rftp/rftp.conf:5
retries 1  # command line
accept-new yes  # $HOME/.config/rftp/rftp.conf:10
END
run rftp put --json "$tmp/tree/one" "$url/other/x"
check "not for the URL itself" test "$(summary prot)" = safe
run rftp get dtn:in/two "$tmp/back"
check "get NAME:path" same "$tmp/tree/one" "$tmp/back"
run rftp ls -1 dtn: near.1:base
check "ls" test "$(grep -cx tree "$tmp/out")" -eq 2
run rftp cp dtn:in/two near.1:other/copied
check "cp" same "$tmp/tree/one" "$tmp/root/other/copied"
run rftp stat dtn:in/two near.1:other/x
check "stat" status_is 0
run rftp mv dtn:in/two near.1:other/
check "mv" test -f "$tmp/root/other/two"
run rftp hash near.1:other/two
check "hash" grep -q "$(sha256sum <"$tmp/tree/one" | cut -d' ' -f1)" "$tmp/out"
run rftp mkdir dtn:new
check "mkdir" test -d "$tmp/root/base/new"
run rftp rm -r dtn:new
check "rm" test ! -e "$tmp/root/base/new"
run rftp bench --json --size 1M dtn:
check "bench" test "$(summary prot)" = clear
run rftp -c "lcd $tmp; pwd; put tree/one shell; cp shell near.1:other/by-shell" dtn:
check "the shell" test "$(cat "$tmp/out")" = /base -a -f "$tmp/root/other/by-shell"
run rftp -c "open dtn; rm shell; put --json $tmp/tree/one shell" --json
check "open NAME" test "$(summary prot)" = clear
run rftp ls shut:
check "another one" fails_with 3 'port 1:'
run rftp ls --show-config shut:
check "--show-config" grep -qx "rate 3145728  # $HOME/.config/rftp/rftp.conf:13" "$tmp/out"
run rftp ls ./dtn:
check "./NAME: is a local name" fails_with 2 'is not on a server'
wrong '[x]' 'needs a line such as "url = '
printf '[x]\nurl /a\n' >"$conf"
read_conf
check "a url that is none" fails_with 2 "$conf:2: url: .*is not on a server"
run rftp put --prot nonsense "$conf" "$nowhere"
check "the command line names the option" fails_with 2 '^rftp: --prot: must be clear, safe or private, not'
finish
