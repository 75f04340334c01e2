set pagination off
set confirm off
set non-stop off
set schedule-multiple on
set breakpoint pending on
set remotetimeout 100000
set sysroot FILES
python
class Goto(gdb.Command):
    """Move to a position of the run, forwards or backwards.
goto rank 3, MPI_Recv #17; goto 1.5 ms; goto init; goto end; goto start;
at a receive: goto send, back to the send of its message; goto receive, from the send. goto send #2 of a call with several."""

    def __init__(self):
        super().__init__("goto", gdb.COMMAND_RUNNING)

    def invoke(self, text, from_tty):
        try:
            said = gdb.execute("monitor goto " + text, to_string=True)
            if not said.startswith("the next stepi"):
                print(said.strip())
                return
            gdb.execute("stepi", from_tty)
        except gdb.error as error:
            raise gdb.GdbError(str(error))


Goto()
end
define hook-quit
  set pagination off
end
define where-ranks
  monitor where
end
document where-ranks
Show the position in virtual time, and the MPI call of each rank.
end
python
gdb.execute("target extended-remote ADDRESS", to_string=True)
shown = gdb.selected_inferior().pid
for number in gdb.execute("monitor processes", to_string=True).split():
    if int(number) != shown:
        gdb.execute("add-inferior", to_string=True)
        gdb.execute("inferior %d" % max(it.num for it in gdb.inferiors()), to_string=True)
        gdb.execute("attach " + number, to_string=True)
gdb.execute("inferior 1", to_string=True)
gdb.execute("monitor where")
end
set pagination on
