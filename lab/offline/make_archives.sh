#!/bin/sh
# make_archives.sh [DIR]: tools.tgz (ip, tc, tcpdump, ethtool and the relay, with their libraries) and py.tar.xz
# (Megatron-Core, DeepSpeed and what they import, for Python 3.12), about 11 MB, for a GPU machine without a network.
# Needs apt, pip and a C compiler.
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "${1:-.}" && pwd)
work=$(mktemp -d)
mkdir -p "$work/bin" "$work/lib" "$work/py" "$work/wheels"
apt-get install -y -qq iproute2 tcpdump ethtool >/dev/null
for tool in ip tc tcpdump ethtool; do
    path=$(command -v $tool || echo /sbin/$tool)
    cp -L "$path" "$work/bin/$tool.real"
    ldd "$path" | awk '/=> \//{print $3}' | xargs -r -I{} cp -Ln {} "$work/lib/"
    # the loader is named, so that no other program sees these libraries
    printf '#!/bin/sh\nd=$(cd "$(dirname "$0")/.." && pwd)\nexec "$d/lib/ld.so" --library-path "$d/lib" "$d/bin/%s.real" "$@"\n' $tool >"$work/bin/$tool"
    chmod +x "$work/bin/$tool"
done
cp -L "$(ldd /bin/sh | awk '/ld-linux/{print $1}')" "$work/lib/ld.so"
cc -O2 -static -o "$work/bin/relay" "$here/../relay.c"
tar czf "$out/tools.tgz" -C "$work" bin lib
fetch="pip download -q --no-deps --python-version 312 --only-binary=:all: -d $work/wheels"
$fetch megatron-core==0.16.1 einops hjson py-cpuinfo psutil msgpack ninja tqdm
pip download -q --no-deps -d "$work/wheels" deepspeed==0.19.8
for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" -d "$work/py"; done
for source in "$work"/wheels/deepspeed-*.tar.gz; do tar xzf "$source" -C "$work" && cp -r "$work"/deepspeed-*/deepspeed "$work/py/"; done
pip install -q --target "$work/py/opt" --python-version 312 --only-binary=:all: pydantic # where the machine has none
rm -rf "$work"/py/megatron/core/datasets/*.so "$work"/py/deepspeed/ops/csrc
find "$work/py" -name tests -type d -prune -exec rm -rf {} +
tar cJf "$out/py.tar.xz" -C "$work/py" .
rm -rf "$work"
ls -la "$out/tools.tgz" "$out/py.tar.xz"
