# jail.sh ROOT [HOST=INSIDE[:rw]]... -- COMMAND...
# Runs a command as the user nobody, without capabilities and unable to get any, in a separate read-only root.
# For `unshare --mount`: the mounts are gone when the command ends.
set -eu
root=$1
shift
mount --make-rprivate /
mount -t tmpfs tmpfs "$root"
for name in usr bin sbin lib lib64 etc; do
  if [ -L "/$name" ]; then
    cp -P "/$name" "$root/$name"
  elif [ -d "/$name" ]; then
    mkdir "$root/$name"
    mount --bind "/$name" "$root/$name"
    mount -o remount,bind,ro "$root/$name"
  fi
done
mkdir "$root/proc" "$root/dev"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
while [ "$1" != -- ]; do
  inside=${1#*=}
  host=${1%%=*}
  target=$root${inside%:rw}
  shift
  if [ -d "$host" ]; then
    mkdir -p "$target"
  else
    mkdir -p "$(dirname "$target")"
    : > "$target"
  fi
  mount --bind "$host" "$target"
  [ "${inside%:rw}" != "$inside" ] || mount -o remount,bind,ro "$target"
done
shift
mount -o remount,ro "$root"
cd "$root" # whose path means nothing inside
exec chroot "$root" setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all -- "$@"
