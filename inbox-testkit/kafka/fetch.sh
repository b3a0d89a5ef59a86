# fetch.sh POM: Apache Kafka as POM names it, with its dependencies, fetched by Maven once per user. The last
# line of its output is the folder of the jars. Runs under any POSIX shell: both scripts/servers.sh and the harness
# call it, so they agree on the folder.
# shellcheck shell=sh
set -eu
pom=$1
cache=${XDG_CACHE_HOME:-${HOME:?is not set: there is no place for the jars of Kafka}/.cache}/inbox-tests
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$pom")
# With a sum of the file: a changed one is another folder.
folder=$cache/kafka-$version-$(cksum <"$pom" | cut -d ' ' -f 1)
if [ ! -d "$folder" ]; then
    mkdir -p "$cache"
    # One at a time; the system lets go of the lock with the process, however that ends.
    exec 9>"$cache/kafka.lock"
    flock 9
    if [ ! -d "$folder" ]; then
        rm -rf "$folder.part"
        mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$folder.part" >&2
        # Under its name, the folder is complete.
        mv "$folder.part" "$folder"
    fi
fi
printf '%s\n' "$folder"
