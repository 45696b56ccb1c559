# shellcheck shell=bash
# shellcheck disable=SC2034 # some are the sourcing script uses them
# Shared by the tests with other FTP servers. Sourced after lib.sh. A script starts its server by
# foreign_start and calls foreign_all with these set:
#
#	url      ftp://... of an empty directory, by which the user logs in
#	disk     that directory
#	keeps    the attributes that the server keeps: "modes times dirtimes"

rftp --version | grep -q '+curl' || skip_all "this rftp is built without libcurl"

# foreign_cert: $tmp/cert.pem with certificate and key, for 127.0.0.1
foreign_cert() {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$tmp/key.pem" -out "$tmp/crt.pem" \
		-days 30 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
	cat "$tmp/crt.pem" "$tmp/key.pem" >"$tmp/cert.pem"
	chmod 600 "$tmp/key.pem" "$tmp/cert.pem"
}

# foreign_port: a free port, for servers that cannot tell their port
foreign_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

listens() { # PORT
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# foreign_start PORT COMMAND...: sets server; output goes to $tmp/foreign.log
foreign_start() {
	local p=$1
	shift
	"$@" </dev/null >>"$tmp/foreign.log" 2>&1 &
	server=$!
	servers+=("$server")
	patience 20 foreign_is_up "$p"
	listens "$p" || comment <"$tmp/foreign.log"
}
foreign_is_up() { listens "$1" || gone "$server"; }

# foreign_tree DIR: names that lists are got wrong by
foreign_tree() {
	mkdir -p "$1/sub/deeper" "$1/a b" "$1/empty" "$1/.hidden dir"
	random "$1/big" 3000000
	random "$1/exact" 1048576
	: >"$1/nothing"
	local name
	for name in 'two  blanks' ' leading' '-dash' '.hidden' 'a -> b' 'Jan  1 2020 x' 'üñí' \
		'st*r?[x]' "quo'te\"d" '100%' 'semi;colon=1; x' '#hash' 'back\slash'; do
		echo "$name" >"$1/a b/$name"
	done
	echo hidden >"$1/.hidden dir/x"
	random "$1/sub/deeper/file" 70000
	touch -d '2020-01-02 03:04:05' "$1/sub/deeper/file"
	chmod 640 "$1/sub/deeper/file"
}

# same_content A B: names and bytes, of files and directories
same_content() {
	diff -r --no-dereference "$1" "$2" | comment
	[ "${PIPESTATUS[0]}" -eq 0 ] &&
		[ "$(cd "$1" && find . | LC_ALL=C sort)" = "$(cd "$2" && find . | LC_ALL=C sort)" ]
}

# used N: so many connections carried bytes in the last command's --json
used() {
	[ "$(summary channels | tr -cs 0-9 '\n' | grep -cv '^0*$')" -ge "$1" ] && return
	summary channels | comment
	return 1
}

has_bytes() { # FILE N
	[ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -gt "$2" ]
}
# A journal of a part, with records in it.
has_journal() { # DIR
	local j
	for j in "$1"/.rftp-*.j; do
		has_bytes "$j" 64 && return
	done
	return 1
}
has_part() { # DIR N
	local p
	for p in "$1"/.rftp-*; do
		has_bytes "$p" "$2" && return
	done
	return 1
}

# At this rate a file of 24 MB, which is killed on its way, takes most of a minute.
slowly=500K
# killed CONDITION COMMAND...: COMMAND in the background, killed when CONDITION (a function and
# words, separated by blanks) is met
killed() {
	local until=$1 pid
	shift
	ran="$*"
	"$@" </dev/null >"$tmp/out" 2>"$tmp/err" &
	pid=$!
	# shellcheck disable=SC2086 # words
	patience 60 $until || echo "# never: $until"
	kill "-${signal:-KILL}" "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	status=$?
}

resumed() { # N: so many bytes at least were there already
	[ "$(summary resumed)" -ge "$1" ] && return
	summary resumed | comment
	return 1
}

mode_of() { stat -c %a "$1"; }
time_of() { stat -c %Y "$1"; }

# shell COMMANDS: in rftp's shell
shell() { run rftp --accept-new -c "$1" "$url"; }
printed() { grep -Fxq -- "$1" "$tmp/out"; }
told() { grep -Eq -- "$1" "$tmp/err"; }

# dirs_of TREE FORMAT: the modes of TREE and its directories, and the values of find's FORMAT
dirs_of() { (cd "$1" && find . -type d -printf "%m$2 %P\n" | LC_ALL=C sort); }

foreign_trees() {
	foreign_tree "$tmp/tree"
	chmod 750 "$tmp/tree"
	chmod 710 "$tmp/tree/sub"
	touch -d '2020-03-04 05:06:07' "$tmp/tree/sub/deeper" "$tmp/tree/sub" "$tmp/tree"
	put -r "$tmp/tree" "$url/one"
	check "put -r" status_is 0
	check "the same there" same_content "$tmp/tree" "$disk/one"
	get -r "$url/one" "$tmp/back"
	check "get -r" status_is 0
	check "the same here" same_content "$tmp/tree" "$tmp/back"
	check "nothing half done stays" no_parts "$disk" "$tmp/back"
	if [[ $keeps == *dirtimes* ]]; then
		check "and times of directories" test "$(dirs_of "$disk/one" ' %Ts')" = \
			"$(dirs_of "$tmp/tree" ' %Ts')"
	fi
	if [[ $keeps == *times* ]]; then
		check "times are kept there" test "$(time_of "$disk/one/sub/deeper/file")" = 1577934245
	fi
	check "times are kept here" test "$(time_of "$tmp/back/sub/deeper/file")" = \
		"$(time_of "$disk/one/sub/deeper/file")"
	if [[ $keeps == *modes* ]]; then
		check "of directories, too" test "$(dirs_of "$disk/one" "")" = "$(dirs_of "$tmp/tree" "")"
		check "modes are kept there" test "$(mode_of "$disk/one/sub/deeper/file")" = 640
		check "modes are kept here" test "$(mode_of "$tmp/back/sub/deeper/file")" = 640
	fi
	get -r --skip-same --json "$url/one" "$tmp/back"
	check "again with --skip-same" status_is 0
	check "all are left alone" test "$(summary bytes)" = 0
	put -r --update --json "$tmp/tree" "$url/one"
	check "put --update" status_is 0
	if [[ $keeps == *times* ]]; then
		check "all are left alone there" test "$(summary bytes)" = 0
	fi
	run rftp put -r --dry-run "$tmp/tree" "$url/dry"
	check "--dry-run" status_is 0
	check "it names the files" grep -q 'sub/deeper/file' "$tmp/out"
	check "and the directories, that it does not make" test "$(grep -c '/$' "$tmp/out")" = \
		"$(find "$tmp/tree" -type d | wc -l)" -a ! -e "$disk/dry"
	mkdir "$tmp/tree/new"
	run rftp put -r --dry-run "$tmp/tree/" "$url/one"
	check "of which only those that are to be made" test "$(grep '/$' "$tmp/out")" = \
		"$tmp/tree/new/"
	rmdir "$tmp/tree/new"
	run rftp get -r --dry-run "$url/one" "$tmp/dry"
	check "get names them, too" test "$(grep '/$' "$tmp/out" | LC_ALL=C sort)" = \
		"$(cd "$tmp/tree" && find . -type d | sed "s|^\\.|$tmp/dry|; s|\$|/|" | LC_ALL=C sort)"
	run rftp get -r --dry-run "$url/one/" "$tmp/back"
	check "and none that is there" not grep -q '/$' "$tmp/out"
}

foreign_destinations() {
	put "$tmp/tree/exact" "$url/one/"
	check "into a directory" same "$tmp/tree/exact" "$disk/one/exact"
	put "$tmp/tree/exact" "$url/one/sub"
	check "into one that is there" same "$tmp/tree/exact" "$disk/one/sub/exact"
	put "$tmp/tree/exact" "$url/renamed"
	check "to a name" same "$tmp/tree/exact" "$disk/renamed"
	put "$tmp/tree/big" "$url/renamed"
	check "over a file" same "$tmp/tree/big" "$disk/renamed"
	put "$tmp/tree/big" "$tmp/tree/exact" "$url/fresh/"
	check "several into one that is made" same "$tmp/tree/exact" "$disk/fresh/exact"
	put "$tmp/tree/big" "$tmp/tree/exact" "$url/fresh"
	check "several need a slash" fails_with 2 'several sources need a directory'
	printf 'sub/deeper/file\na b/-dash\n' >"$tmp/list"
	put --files-from "$tmp/list" "$tmp/tree" "$url/listed"
	check "--files-from" same "$tmp/tree/a b/-dash" "$disk/listed/a b/-dash"
	get --files-from "$tmp/list" "$url/one" "$tmp/listed"
	check "--files-from, get" same "$tmp/tree/sub/deeper/file" "$tmp/listed/sub/deeper/file"
	get "$url/one/big" -
	check "to standard output" same "$tmp/tree/big" "$tmp/out"
	run_stdin rftp put -q - "$url/piped" <"$tmp/tree/big"
	check "from standard input" same "$tmp/tree/big" "$disk/piped"
	get "$url/no/such" "$tmp/x"
	check "what is not there" fails_with 1 'such'
	get "$url/one" "$tmp/x"
	check "a directory wants -r" fails_with 1 'is a directory'
}

foreign_resume() {
	local big=$tmp/resume
	random "$big" 24000000
	put "$big" "$url/resume"
	mkdir "$tmp/r"
	killed "has_journal $tmp/r" rftp get -q --rate "$slowly" "$url/resume" "$tmp/r/"
	check "get was killed" test ! -e "$tmp/r/resume"
	get --json "$url/resume" "$tmp/r/"
	check "get goes on" status_is 0
	check "from where it was" resumed 1048576
	check "the same" same "$big" "$tmp/r/resume"
	check "no part stays here" no_parts "$tmp/r"

	mkdir -p "$disk/r"
	chmod 777 "$disk/r"
	killed "has_part $disk/r 2200000" rftp put -q --rate "$slowly" "$big" "$url/r/"
	check "put was killed" test ! -e "$disk/r/resume"
	put --json "$big" "$url/r/"
	check "put goes on" status_is 0
	check "from where it was there" resumed 1048576
	check "the same there" same "$big" "$disk/r/resume"
	check "no part stays there" no_parts "$disk/r"

	rm "$tmp/r/resume"
	signal=TERM killed "has_journal $tmp/r" rftp get -q --rate "$slowly" "$url/resume" "$tmp/r/"
	check "a signal stops it" test "$status" -eq 4
	check "and tells how to resume" said 'the same command resumes'
	touch -d '2021-01-01' "$disk/resume"
	get --json "$url/resume" "$tmp/r/"
	check "a file that has changed since is got anew" test "$(summary resumed)" = 0
	check "and is the same" same "$big" "$tmp/r/resume"
}

foreign_connections() {
	local i
	mkdir "$tmp/many"
	for i in 1 2 3 4 5 6 7 8; do
		random "$tmp/many/$i" 400000
	done
	put -r --json --rate 400K "$tmp/many" "$url/many"
	check "several connections put" used 2
	get -r --json --rate 400K "$url/many" "$tmp/many.back"
	check "several connections get" used 2
	check "the same" same_content "$tmp/many" "$tmp/many.back"
	rm -r "$tmp/many.back"
	get -r --json --channels 1 "$url/many" "$tmp/many.back"
	check "--channels 1" status_is 0
	check "is one" test "$(summary channels | tr -cd , | wc -c)" -eq 0
	check "the same" same_content "$tmp/many" "$tmp/many.back"
}

# Files with the same content are not sent again, if the server computes digests, and get the
# source's time.
foreign_checksum() {
	local way
	for way in put get; do
		rm -rf "${tmp:?}/same"
		mkdir "$tmp/same"
		cp "$tmp/tree/exact" "$tmp/same/equal"
		cp "$tmp/tree/exact" "$tmp/same/differs"
		rm -rf "${disk:?}/same"
		put -r "$tmp/same" "$url/same"
		printf x | dd of="$tmp/same/differs" conv=notrunc 2>"$tmp/dd"
		touch -d '2003-03-03 03:03:03' "$tmp/same/"*
		if [ $way = put ]; then
			run rftp put --accept-new -r --checksum --json "$tmp/same" "$url/same"
		else
			run rftp get --accept-new -r --checksum --json "$url/same" "$tmp/same"
		fi
		check "$way --checksum" status_is 0
		check "$way --checksum: the contents" same_content "$tmp/same" "$disk/same"
		if told 'computes no digests'; then
			check "$way --checksum: without digests all is copied" test "$(summary files)" = 2
		else
			check "$way --checksum: sends what differs" test "$(summary files)" = 1
			[[ $keeps != *times* ]] || check "$way --checksum: the time" test \
				"$(time_of "$disk/same/equal")" = "$(time_of "$tmp/same/equal")"
		fi
	done
}

foreign_commands() {
	run rftp ls -1 "$url/one"
	check "ls" printed 'a b'
	run rftp ls -1 "$url/one/a%20b"
	check "ls of names with blanks" printed 'a -> b'
	check "and with a blank in front" printed ' leading'
	run rftp stat --json "$url/one/sub/deeper/file"
	check "stat" grep -q '"size": *70000' "$tmp/out"
	run rftp stat "$url/one/sub"
	check "stat of a directory" grep -q 'type *directory' "$tmp/out"
	run rftp mkdir -p "$url/m/n/o"
	check "mkdir -p" test -d "$disk/m/n/o"
	run rftp mv "$url/renamed" "$url/m/moved"
	check "mv" same "$tmp/tree/big" "$disk/m/moved"
	run rftp rm "$url/m/moved"
	check "rm" test ! -e "$disk/m/moved"
	run rftp rm "$url/m"
	check "rm wants -r" fails_with 1 'rm -r'
	run rftp rm -r "$url/m" "$url/one/a%20b"
	check "rm -r" test ! -e "$disk/m" -a ! -e "$disk/one/a b"
	run rftp bench "$url"
	check "bench is refused" fails_with 2 'needs an rftpd'
	run rftp cp "$url/one" rftp://127.0.0.1/x
	check "cp is refused" fails_with 2 'needs an rftpd'
	run rftp cp rftp://127.0.0.1/x "$url/one"
	check "cp to there, too" fails_with 2 'needs an rftpd'
}

foreign_refused() {
	local option command words
	for option in '--transport rdma' '--op write' '--block 1M' '--nic lo' '--prot safe' \
		'--ack verified' '--inflight 8' '--numa off' '--xattrs' '--owner' '--io uring' \
		'--channels 100'; do
		# shellcheck disable=SC2086 # two words
		put $option "$tmp/tree/exact" "$url/refused"
		check "$option is refused" fails_with 2 "--${option#--}"
	done
	for command in ls stat mkdir rm hash mv; do
		words=("$url/refused")
		[ $command != mv ] || words+=("$url/refused2")
		run rftp $command --accept-new --prot safe "${words[@]}"
		check "$command --prot safe is refused, too" fails_with 2 '--prot safe is not possible'
	done
	run rftp ls --accept-new --prot safe --prot private "$url/"
	check "unless another word behind it takes it back" status_is 0
	run rftp --accept-new --prot safe -c 'ls' "$url"
	check "in the shell, too" fails_with 2 '--prot safe is not possible'
	put --transport tcp --io auto --owner=no "$tmp/tree/exact" "$url/refused"
	check "what changes nothing is not" status_is 0
	run rftp put --accept-new "$tmp/tree/exact" "$url/refused"
	check "no RDMA there, it says" told 'RDMA and the integrity of blocks are not available'
	run rftp put --json -q "$tmp/tree/exact" "$url/refused"
	check "and in JSON" grep -q '"rdma": *false, *"block_integrity": *false' "$tmp/out"
	check "not with -q" test ! -s "$tmp/err"
	check "transport" test "$(summary transport)" = ftp
}

foreign_shell() {
	mkdir "$tmp/here"
	shell "pwd; cd one; ls -1; mkdir made; cd made; lcd $tmp/tree; put exact; mput sub/deeper/f*; \
lcd $tmp/here; mget *; size exact; mv exact other; rm other; cd ..; rmdir nowhere"
	check "the shell ends at what fails" test "$status" -eq 1
	check "ls there" printed sub
	check "mput" same "$tmp/tree/sub/deeper/file" "$disk/one/made/file"
	check "mget" same "$tmp/tree/exact" "$tmp/here/exact"
	check "size" grep -q '^1048576' "$tmp/out"
	check "mv and rm" test ! -e "$disk/one/made/exact" -a ! -e "$disk/one/made/other"
	if [[ $keeps == *modes* ]]; then
		shell "chmod 600 one/made/file"
		check "chmod" test "$(mode_of "$disk/one/made/file")" = 600
	fi
	shell "get one/made/file |cat >$tmp/piped"
	check "down a pipe" same "$tmp/tree/sub/deeper/file" "$tmp/piped"
}

foreign_all() {
	foreign_trees
	foreign_checksum
	foreign_destinations
	foreign_resume
	foreign_connections
	foreign_refused
	foreign_commands
	foreign_shell
}

foreign_limited_get() {
	rm -rf "$tmp/many.back"
	run rftp get -r --accept-new --json -v --rate 400K --channels 8 "$url/many" "$tmp/many.back"
	[ "$status" -ne 3 ] && used 2
}

# foreign_limited: with a server that takes two connections. It may take a while to forget those of
# the last command.
foreign_limited() {
	patience 30 foreign_limited_get
	check "a server that takes two connections" status_is 0
	check "two are used" used 2
	check "it says so" told 'one connection less'
	check "the same" same_content "$tmp/many" "$tmp/many.back"
}
