#!/bin/bash
# shellcheck disable=SC2034 # limit and ran are for lib.sh
# Parts, journals and temporaries of an interrupted transfer are gone once a later one of any kind
# for the same name has ended with status 0; those of a running transfer stay. TAP.

. "${top_srcdir:?}/tests/e2e/lib.sh"
need python3

limit=60
mkdir "$tmp/root" "$tmp/here" "$tmp/src" "$tmp/sink"
# Sessions and clients die at these points while the file is there.
export RFTP_FAULT="commit:SIGKILL:file=$tmp/at-commit;rename:SIGKILL:file=$tmp/at-rename;rename:SIGKILL:after=1:file=$tmp/at-second"
start_server sink --root "$tmp/sink" --anonymous rw --third-party all
sink=$server sink_url=$url
run rftp ls --accept-new "$url/"
start_server d --root "$tmp/root" --anonymous rw --third-party all
run rftp ls --accept-new "$url/"
random "$tmp/big" 17000000
random "$tmp/small" 1000
touch -d '2026-01-02 03:04:05' "$tmp/big" "$tmp/small"

# move put|get|cp OPTION...: src/ into an existing directory
move() {
	local dir=$1
	shift
	case $dir in
	put) run rftp put -q -r --retries 0 "$@" "$tmp/src/" "$url/to" ;;
	get) run rftp get -q -r --retries 0 "$@" "$url/from/" "$tmp/here/to" ;;
	cp) run rftp cp -q -r --retries 0 "$@" "$url/from/" "$sink_url/to" ;;
	esac
}
source_is() { rm -rf "$tmp/src" "$tmp/root/from" && mkdir "$tmp/src" && "$@" && cp -a "$tmp/src" "$tmp/root/from"; }
parts() { find "$to" -name '.rftp-*' | grep -q .; }
big() { cp -p "$tmp/big" "$tmp/src/f"; }
small() { cp -p "$tmp/small" "$tmp/src/f"; }
link() { ln -s nowhere "$tmp/src/f"; }
hard_links() { cp -p "$tmp/small" "$tmp/src/e" && ln "$tmp/src/e" "$tmp/src/f"; }

# interrupted DIR POINT
interrupted() {
	touch "$tmp/at-$2"
	move "$1"
	rm "$tmp/at-$2"
	check "$1: killed at $2" not status_is 0
	patience 20 no_children "$server"
	patience 20 no_children "$sink"
	check "$1: something is left" parts
}
# cleared DIR NAME OPTION...
cleared() {
	local dir=$1 what=$2
	shift 2
	move "$dir" "$@"
	check "$dir, $what: status 0" status_is 0
	check "$dir, $what: nothing is left" no_parts "$to"
}
afresh() { rm -rf "$to" && mkdir "$to"; }

ways="put get cp"
has_faults || { skip "transfers that are killed" "$no_faults"; ways=; }
for dir in $ways; do
	case $dir in
	put) to=$tmp/root/to ;;
	get) to=$tmp/here/to ;;
	cp) to=$tmp/sink/to ;;
	esac

	for then in small link hard_links; do
		afresh
		source_is big
		interrupted $dir commit
		source_is $then
		cleared $dir "a big file, then $then"
	done

	for option in --inplace --no-resume --skip-existing --update; do
		afresh
		[ "$option" != --skip-existing ] && [ "$option" != --update ] || cp "$tmp/small" "$to/f"
		source_is big
		interrupted $dir commit
		cleared $dir "a big file, then $option" $option
	done

	# As a kill between the rename and the removal of the journal leaves it.
	afresh
	source_is big
	interrupted $dir commit
	mv "$(find "$to" -name '.rftp-*' ! -name '*.j')" "$to/f"
	cp -p "$tmp/big" "$to/f"
	cleared $dir "a journal alone, then --skip-same" --skip-same

	for kind in link hard_links; do
		for then in "" --skip-existing; do
			afresh
			source_is $kind
			echo old >"$to/f"
			echo old >"$to/e"
			# Of two hard links the first is written as a file.
			if [ $kind = link ]; then interrupted $dir rename; else interrupted $dir second; fi
			# shellcheck disable=SC2086
			cleared $dir "$kind $then" $then
		done
	done
done

# A part that another transfer is writing stays.
to=$tmp/root/to
afresh
source_is big
rftp put -q --rate 2M "$tmp/big" "$url/to/f" </dev/null >"$tmp/first" 2>&1 &
first=$!
others+=("$first")
check "another transfer has a part" patience 20 parts
cp "$tmp/small" "$to/f"
source_is small
move put --skip-existing
check "the file is left alone" status_is 0
check "the part of the running transfer stays" parts
kill "$first"
wait "$first"
# From an FTP server, with a journal that is made after the directory was found without any.
mkdir "$tmp/root/many" "$tmp/here/many"
for n in $(seq 100 300); do echo "$n" >"$tmp/root/many/a$n"; done
random "$tmp/root/many/zz1" 5000000
random "$tmp/root/many/zz2" 5000000
start_server plain --root "$tmp/root" --anonymous ro --plain
run rftp get -q -r --plain --inplace "ftp://127.0.0.1:$port/many/" "$tmp/here/many"
check "ftp, --inplace: status 0" status_is 0
check "ftp, --inplace: all is there" diff -r "$tmp/root/many" "$tmp/here/many"
check "ftp, --inplace: nothing is left" no_parts "$tmp/here/many"
stop_server
server=${servers[0]}

check "the server ends well" stops_well
finish
