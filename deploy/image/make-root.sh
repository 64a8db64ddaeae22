#!/bin/sh
# Copies packages that are installed here into a folder that becomes the root of an image:
#   make-root.sh FOLDER PACKAGE...
# With the packages that these need; without what only an installation needs (apt, dpkg, debconf, perl),
# without manuals and translations. The licences stay, and so does the status of the packages, which
# scanners read.
set -eu
export LC_ALL=C

root=$1
shift
mkdir -p "$root"

# Names of the packages and of all that they depend on; of alternatives, the first that is installed.
closure=$(awk -v wanted="$*" '
  /^Package: /   { package = $2; known[package] = 1 }
  /^Provides: /  { sub(/^Provides: /, ""); gsub(/\([^)]*\)|,/, " ")
                   for (i = split($0, names, " "); i > 0; --i) if (!(names[i] in by)) by[names[i]] = package }
  /^(Pre-)?Depends: / { sub(/^[^:]*: /, ""); needs[package] = needs[package] "," $0 }
  END {
    split("debconf debconf-2.0 dpkg perl-base perl install-info openssl tar", names, " ")
    for (i in names) skipped[names[i]] = 1
    size = split(wanted, queue, " ")
    for (at = 1; at <= size; ++at) {
      package = queue[at]
      if (package in seen) continue
      if (!(package in known)) { print "make-root: no package " package > "/dev/stderr"; exit 1 }
      seen[package] = 1
      print package
      count = split(needs[package], groups, ",")
      for (i = 1; i <= count; ++i) {
        others = split(groups[i], choices, "|")
        for (j = 1; j <= others; ++j) {
          name = choices[j]
          gsub(/\([^)]*\)|\[[^]]*\]|:any|[ \t]/, "", name)
          if (name == "" || name in skipped) break
          if (!(name in known) && name in by) name = by[name]
          if (name in known) { queue[++size] = name; break }
        }
      }
    }
  }' /var/lib/dpkg/status)

# /bin, /lib and the like lead into /usr, as here.
for name in bin sbin lib lib32 lib64 libx32; do
  [ -L "/$name" ] || continue
  mkdir -p "$root/usr/$name"
  ln -s "usr/$name" "$root/$name"
done

# shellcheck disable=SC2086  # Lists of words, on purpose.
dpkg-query -L $closure | sed -n 's|^/||p' | sort -u | grep -v -E \
    -e '^usr/share/(man|info|locale|lintian|bash-completion|bug|doc-base|menu)(/|$)' \
    -e '^usr/share/doc/[^/]*/[^c]' -e '^usr/share/doc/[^/]*/c(hangelog|ontrib)' \
    -e '^usr/(share|lib/[^/]*)/(gconv|perl5?)(/|$)' \
  | tar -C / -c --no-recursion --files-from - --ignore-failed-read 2>/dev/null \
  | tar -C "$root" -x --keep-directory-symlink

# What installing them has written.
for file in etc/passwd etc/group etc/nsswitch.conf etc/ssl/certs/ca-certificates.crt; do
  [ ! -e "/$file" ] || { mkdir -p "$root/$(dirname "$file")"; cp -p "/$file" "$root/$file"; }
done
mkdir -p "$root/tmp" "$root/proc" "$root/sys" "$root/dev" "$root/var/lib/dpkg"
chmod 1777 "$root/tmp"
# The alternatives that mawk and the like are known by.
for link in /etc/alternatives/awk; do
  [ ! -L "$link" ] || { mkdir -p "$root/etc/alternatives"; cp -P "$link" "$root$link"; cp -P /usr/bin/awk "$root/usr/bin/awk"; }
done
ldconfig -r "$root"
echo "$closure" | awk '
  FNR == NR { wanted[$1] = 1; next }
  /^Package: / { keep = $2 in wanted }
  keep' - /var/lib/dpkg/status > "$root/var/lib/dpkg/status"
