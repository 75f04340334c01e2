#!/bin/sh
# srun, as batch scripts call it, for the nodes of a run: starts ranks by the launcher of the image's MPI, on the
# nodes of the run's host file. Options that have no meaning here are passed over.

say() {
    echo "srun: $1" >&2
    exit 2
}

ranks=${SLURM_NTASKS:-} nodes= each=${SLURM_NTASKS_PER_NODE:-} label= list=
while [ $# -gt 0 ]; do
    option=$1 value= glued=
    case $option in
    --*=*) value=${option#*=} option=${option%%=*} glued=1 ;;
    -[nNcJtpAwDoei]?*) value=${option#??} option=${option%"${option#??}"} glued=1 ;;
    esac
    case $option in
    # With a value.
    -n | --ntasks | -N | --nodes | --ntasks-per-node | --tasks-per-node | -w | --nodelist | -c | \
        --cpus-per-task | -J | --job-name | -t | --time | -p | --partition | -A | --account | -D | --chdir | \
        -o | --output | -e | --error | -i | --input | --mem | --mem-per-cpu | -m | --distribution | \
        --threads-per-core | --export | --hint | --qos | -C | --constraint | --gres | --gpus | -G | \
        --cpu-freq | --het-group)
        if [ -z "$glued" ]; then
            [ $# -gt 1 ] || say "there is no value after $option"
            shift
            value=$1
        fi
        ;;
    esac
    case $option in
    -n | --ntasks) ranks=$value ;;
    -N | --nodes) nodes=${value##*-} ;;
    --ntasks-per-node | --tasks-per-node) each=$value ;;
    -w | --nodelist) list=$value ;;
    -D | --chdir) cd "$value" || exit 2 ;;
    -o | --output) output=$value ;;
    -e | --error) error=$value ;;
    --export)
        old=$IFS IFS=,
        for variable in $value; do
            case $variable in *=*) export "${variable?}" ;; esac
        done
        IFS=$old
        ;;
    -l | --label) label=1 ;;
    --)
        shift
        break
        ;;
    -*) ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || say "there is no program; write for example: srun -n 4 ./a.out"

if [ -n "$nodes" ] && [ -z "$list" ]; then
    i=0
    while [ "$i" -lt "$nodes" ]; do
        list=${list:+$list,}node$i
        i=$((i + 1))
    done
    if [ -z "$each" ] && [ -n "$ranks" ]; then each=$(((ranks + nodes - 1) / nodes)); fi
fi
[ -n "$ranks" ] || ranks=$((${nodes:-${BELLJAR_NODES:-1}} * ${each:-1}))
case $ranks$each in *[!0-9]*) say "-n $ranks: write a number" ;; esac
if [ -n "${output:-}" ]; then exec >"$output"; fi
if [ -n "${error:-}" ]; then exec 2>"$error"; fi

# Whose ranks they are: where an image has both, the program's library says.
hydra= open=
for name in mpiexec.hydra mpiexec.mpich; do
    if [ -z "$hydra" ]; then hydra=$(command -v $name); fi
done
for name in orterun mpirun.openmpi prterun; do
    if [ -z "$open" ]; then open=$(command -v $name); fi
done
program=$(command -v "$1")
if [ -n "$hydra" ] && [ -n "$open" ]; then
    if grep -q 'libmpi\.so\.[48]0' "${program:-$1}" 2>/dev/null; then hydra=; else open=; fi
fi
if [ -n "$hydra" ]; then
    exec "$hydra" -n "$ranks" ${each:+-ppn "$each"} ${list:+-hosts "$list"} ${label:+-prepend-rank} "$@"
elif [ -n "$open" ]; then
    exec "$open" -n "$ranks" ${each:+--map-by "ppr:$each:node"} ${list:+--host "$(echo "$list" | sed "s/,/:$((${each:-1})),/g"):$((${each:-1}))"} \
        ${label:+--tag-output} "$@"
elif command -v mpiexec >/dev/null; then
    exec mpiexec -n "$ranks" "$@"
fi
say "the image has no launcher of MPI"
