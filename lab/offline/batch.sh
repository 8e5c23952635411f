#!/bin/bash
# batch.sh SLOT...: records scenarios on a machine with one CUDA GPU (root), with the archives of make_archives.sh in
# $CARRY. A slot is one scenario, or several joined by '+' that run side by side: each on its
# own cores; those that begin with 'cpu:' run over gloo, the others on the GPU. BUDGET=seconds: no slot begins after that.
# Results: $OUT/runs.tar.* (one tar, cut into parts of 15 MB).
here=$(cd "$(dirname "$0")/../.." && pwd); carry=${CARRY:-$here/lab/offline}; out=${OUT:-$PWD}; work=${WORK:-/dev/shm/lab}
begin=$(date +%s); tried=0
mkdir -p $work/tools $work/py $work/runs
[ -e $work/tools/bin ] || tar xzf $carry/tools.tgz -C $work/tools
[ -e $work/py/megatron ] || tar xJf $carry/py.tar.xz -C $work/py
export PATH=$work/tools/bin:$PATH LAB_RELAY=$work/tools/bin/relay LAB_PYTHONPATH=$work/py PYTHONUNBUFFERED=1 PYTHONPATH=$here
python3 -c 'import pydantic' 2>/dev/null || LAB_PYTHONPATH=$work/py:$work/py/opt
cd $here
if [ ! -e $work/warm ]; then
    python3 -m compileall -q -j 16 $work/py/megatron/core $work/py/deepspeed lab >/dev/null 2>&1
    PYTHONPATH=$LAB_PYTHONPATH python3 -c 'import torch, transformers, transformers.trainer, deepspeed, megatron.core' >/dev/null 2>&1
    touch $work/warm; echo "warm after $(($(date +%s) - begin)) s"
fi
cores=$(nproc); last=$((cores - 1))
for slot in "$@"; do
    if [ -n "$BUDGET" ] && [ $(($(date +%s) - begin)) -gt $BUDGET ]; then echo "SKIPPED $slot"; continue; fi
    nvidia-cuda-mps-control -d >/dev/null 2>&1; start=$(date +%s); pids=; k=0
    members=(${slot//+/ }); n=${#members[@]}; split=9; case $slot in *+cpu:*) ;; *) split=7;; esac
    for member in "${members[@]}"; do
        name=${member#cpu:}; flag=--gpu; [ $name != $member ] && flag=
        case $n.$k in
            1.0) set_=0-$last;; 2.0) set_=0-$split;; 2.1) set_=$((split + 1))-$last;; 3.0) set_=0-7;; 3.1) set_=8-11;; 3.2) set_=12-$last;; *) set_=$((4 * k))-$((4 * k + 3));;
        esac
        taskset -c $set_ timeout -s INT 130 python3 -m lab record $name $work/runs/$name $flag --tag lp$k > $work/runs/$name.txt 2>&1 &
        pids="$pids $!"; k=$((k + 1))
    done
    wait $pids
    for member in "${members[@]}"; do
        name=${member#cpu:}; cut -c1-300 $work/runs/$name.txt | tail -4
        grep -h "iteration" $work/runs/$name/jobs/*/rank0.log 2>/dev/null | tail -1
        grep -q failed $work/runs/$name.txt && grep -hE "Error|error" $work/runs/$name/jobs/*/rank*.log | sort | uniq -c | sort -rn | cut -c1-300 | head -4
    done
    good=$(grep -L failed $(ls $work/runs/*/run.json | sed 's#/run.json#.txt#') /dev/null 2>/dev/null | wc -l); tried=$((tried + 1))
    if [ $tried = 2 ] && [ $good = 0 ]; then echo "nothing works: stopped early"; tail -15 $work/runs/*/jobs/*/rank0.log | cut -c1-300; break; fi
    echo "-- $slot $(($(date +%s) - start)) s"
    timeout 10 sh -c 'echo quit | nvidia-cuda-mps-control' >/dev/null 2>&1
done
cd $here; ls -d $work/runs/*/ | xargs -P $cores -I{} python3 -m lab extract {} 2>&1 | grep -v "^$" | cut -c1-200
cd $work/runs && for d in */; do
    [ -e $d/flows.npz ] && tar rf runs.tar $(ls ${d}run.json ${d}flows.npz ${d}slice.pcap.gz ${d}jobs/*/rank*.jsonl ${d}jobs/*/rank*.log 2>/dev/null)
done
split -b 15m -d runs.tar $out/runs.tar. && rm -rf $work/runs; ls -la $out; echo "all after $(($(date +%s) - begin)) s"
