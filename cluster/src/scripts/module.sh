#!/bin/sh
# module, for nodes whose image has none: names what a script asks for, as the programs of the image are all that there is.

case ${1:-} in
load | add | swap | switch | unload | rm | use)
    echo "module: nodes have the programs of their image, and nothing else is loaded: module $*" >&2
    ;;
list | avail | spider | -t) echo "module: there are no modules; nodes have the programs of their image" >&2 ;;
esac
