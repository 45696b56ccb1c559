# shellcheck shell=bash
# Certificates for tests of clients that show one. Sourced after lib.sh.

# make_ca NAME: $tmp/NAME.pem and $tmp/NAME.key
make_ca() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$tmp/$1.key" \
		-out "$tmp/$1.pem" -subj "/CN=$1" -days 2 2>/dev/null
}

# make_cert NAME SUBJECT [CA]: $tmp/NAME.pem and $tmp/NAME.key; without CA it signs itself
make_cert() {
	local name=$1 subject=$2 ca=${3:-}
	if [ -z "$ca" ]; then
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
			-keyout "$tmp/$name.key" -out "$tmp/$name.pem" -subj "$subject" -days 2 2>/dev/null
	else
		openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
			-keyout "$tmp/$name.key" -out "$tmp/$name.csr" -subj "$subject" 2>/dev/null &&
			openssl x509 -req -in "$tmp/$name.csr" -CA "$tmp/$ca.pem" -CAkey "$tmp/$ca.key" \
				-CAcreateserial -out "$tmp/$name.pem" -days 1 2>/dev/null
	fi
	chmod 600 "$tmp/$name.key"
}

# make_old_cert NAME SUBJECT CA: as make_cert, and it expired in 2020. "openssl x509" of 3.5 takes
# no negative days, and that of 3.0 no dates: "openssl ca" takes dates in both.
make_old_cert() {
	make_cert "$@" || return
	cat >"$tmp/$1.cnf" <<-CONFIG
		[ca]
		default_ca = old
		[old]
		database = $tmp/$1.index
		new_certs_dir = $tmp
		rand_serial = yes
		default_md = sha256
		policy = any
		preserve = yes
		[any]
		organizationName = optional
		commonName = supplied
	CONFIG
	: >"$tmp/$1.index"
	openssl ca -batch -notext -config "$tmp/$1.cnf" -cert "$tmp/$3.pem" -keyfile "$tmp/$3.key" \
		-in "$tmp/$1.csr" -out "$tmp/$1.pem" -startdate 20200101000000Z \
		-enddate 20200102000000Z 2>/dev/null
}

# pin_of NAME: as the log of a server and the map of certificates show it
pin_of() {
	printf 'SHA256:'
	openssl x509 -in "$tmp/$1.pem" -noout -pubkey | openssl pkey -pubin -outform DER |
		openssl dgst -sha256 -binary | base64 | tr -d =
}
