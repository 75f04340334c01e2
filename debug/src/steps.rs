//! Movements along the time, as a debugger requests them.
//!
//! A step is one instruction of a thread's user code. The kernel's instructions before and after it, and those of
//! other threads, belong to the step.

use std::sync::atomic::AtomicBool;

use belljar_cluster::observe::timeline::{BreakFilter, Breakpoint, Moved};
use belljar_cpu::Registers;
use belljar_gdb::{Cause, Movement, Stop, ThreadId};
use belljar_linux::Thread;
use belljar_sim::Time;

use crate::processes::NodeProcess;
use crate::registers::LiveThread;
use crate::session::{Session, SessionError};

/// Functions of the kernel: the end of a thread, and the signal for a fault of user code.
const EXIT: &str = "do_exit";
const FAULT: &str = "force_sig_fault";
/// Bytes of the instruction SYSCALL.
const SYSCALL: u64 = 2;
/// Exits of the kernel between two instructions of a thread that are passed at most: page faults and
/// interrupts.
const MOST_DETOURS: u32 = 64;

/// A thread before a step.
struct Stepped {
    process: NodeProcess,
    thread: Thread,
    id: ThreadId,
}

impl Session {
    /// Executes a movement.
    pub(crate) fn execute(
        &mut self,
        movement: Movement,
        stop: &AtomicBool,
    ) -> Result<Stop, SessionError> {
        if let Some(stopped) = self.postponed.take() {
            return self.after_libraries(stopped);
        }
        if let Some(place) = self.pending.take() {
            let here = self.timeline.position();
            if let Movement::Step(thread) = movement {
                // The selected thread, which the place may be about.
                self.shown = Some(thread);
            }
            let gone = self.goto(&place, stop);
            if gone.is_err() {
                self.timeline.goto(here)?;
            }
            self.hear();
            let moved = gone?;
            let thread = self.current_thread();
            let cause = if matches!(moved, Moved::Ended(_)) {
                Cause::End
            } else {
                Cause::Stopped
            };
            self.shown = Some(thread);
            return self.after_libraries(Stop { thread, cause });
        }
        let here = self.timeline.position();
        let stopped = match movement {
            Movement::Continue => self.forward(stop),
            Movement::ReverseContinue => self.backward(stop),
            Movement::Step(thread) => match self.kernel_thread(thread) {
                Some(kernel) => self.step_kernel(kernel, false),
                None => self.step(thread, stop),
            },
            Movement::ReverseStep(thread) => match self.kernel_thread(thread) {
                Some(kernel) => self.step_kernel(kernel, true),
                None => self.step_back(thread, stop),
            },
        };
        if stopped.is_err() {
            // The failed movement may have left the ranks, whose places the debugger knows.
            self.timeline.goto(here)?;
        }
        self.hear();
        self.after_libraries(stopped?)
    }

    /// A stop for the next process whose libraries have changed, and `stopped` after it; or `stopped` itself.
    fn after_libraries(&mut self, stopped: Stop) -> Result<Stop, SessionError> {
        for process in self.processes() {
            let number = process.number();
            let Some(before) = self.loaders.get(&number).cloned() else {
                continue;
            };
            let now = self.loader_of(&process);
            let changed = now.filter(|now| now.differs(&before));
            if let (Some(now), Some(thread)) = (changed, process.process.threads.first()) {
                self.loaders.insert(number, now);
                self.postponed = Some(stopped);
                self.copy_files()?;
                return Ok(Stop {
                    thread: process.thread(thread),
                    cause: Cause::Libraries,
                });
            }
        }
        Ok(stopped)
    }

    fn forward(&mut self, stop: &AtomicBool) -> Result<Stop, SessionError> {
        let (_, stopped) = self.forward_to(None, stop)?;
        Ok(stopped)
    }

    /// Moves forwards to a breakpoint of the debugger, to `own`, or to the end of a rank by an error.
    fn forward_to(
        &mut self,
        own: Option<Breakpoint>,
        stop: &AtomicBool,
    ) -> Result<(Moved, Stop), SessionError> {
        let mut points = self.breakpoints.clone();
        points.extend(self.exits());
        points.extend(self.kernel_breakpoints(FAULT));
        points.extend(own);
        loop {
            self.timeline.set_breakpoints(points.clone());
            self.place_watchpoints();
            let moved = self.timeline.forward(Time::MAX, stop)?;
            if let Moved::Hit(address) = moved
                && self.is_function(address, EXIT)
            {
                match self.pass_exit() {
                    Some(stopped) => return Ok((Moved::Reached, stopped)),
                    None => continue,
                }
            }
            let moved = self.back_to_ranks(moved)?;
            let mut stopped = self.stop_of(&moved);
            if matches!(moved, Moved::Hit(address) if self.is_function(address, FAULT)) {
                stopped.cause = Cause::Signal(self.first_argument() as u8);
            }
            return Ok((moved, stopped));
        }
    }

    fn backward(&mut self, stop: &AtomicBool) -> Result<Stop, SessionError> {
        self.timeline.set_breakpoints(self.breakpoints.clone());
        let moved = self.timeline.backward(self.earliest(), stop)?;
        self.begin_with_ranks(&moved)?;
        Ok(self.stop_of(&moved))
    }

    /// At the start of the run, moves forwards to the first position with ranks.
    fn begin_with_ranks(&mut self, moved: &Moved) -> Result<(), SessionError> {
        if let (Moved::Start, Some(time)) = (moved, self.ranks_from) {
            self.timeline.goto_time(time)?;
        }
        Ok(())
    }

    fn is_function(&self, address: u64, name: &str) -> bool {
        let mut layouts = self.layouts.iter();
        layouts.any(|layout| layout.function(name) == Some(address))
    }

    /// The first argument of the function of the kernel at which a node has stopped.
    fn first_argument(&self) -> u64 {
        let node = self.timeline.position().node;
        self.timeline.runner(node).node().registers().gpr[Registers::RDI]
    }

    /// A thread of a rank ends. A stop if it ends with an error, or if it is the last one of the last rank.
    fn pass_exit(&mut self) -> Option<Stop> {
        let node = self.timeline.position().node;
        let id = self.running(node)?;
        let (process, thread) = self.find(id)?;
        let is_last = process.process.threads.len() <= 1;
        let code = self.first_argument();
        let (signal, status) = (code & 0x7f, code >> 8 & 0xff);
        let who = match process.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("process {}", process.process.pid),
        };
        if !is_last && signal == 0 {
            return None;
        }
        let how = match (signal, status) {
            (0, 0) => "ends".to_owned(),
            (0, status) => format!("ends with exit code {status}"),
            (signal, _) => format!("is killed by signal {signal}"),
        };
        let said = format!("belljar: {who} {how} ({})\n", thread.name);
        self.output.extend(said.bytes());
        let others = self.rank_processes().len() > 1;
        if signal == 0 && status == 0 && others {
            return None;
        }
        self.shown = Some(id);
        let cause = match (signal, status) {
            (0, 0) => Cause::End,
            (0, _) => Cause::Stopped,
            (signal, _) => Cause::Signal(signal as u8),
        };
        Some(Stop { thread: id, cause })
    }

    /// The stop after a movement of the timeline.
    fn stop_of(&mut self, moved: &Moved) -> Stop {
        let node = self.timeline.position().node;
        let arrived = self.kernel_arrival(moved).or_else(|| self.running(node));
        let thread = arrived.unwrap_or_else(|| self.current_thread());
        self.shown = Some(thread);
        let cause = match moved {
            Moved::Hit(_) => Cause::Breakpoint,
            Moved::Accessed { address, access } => return self.stop_at_access(*address, *access),
            Moved::Ended(_) => Cause::End,
            Moved::Start => Cause::Start,
            Moved::Reached => Cause::Stopped,
            Moved::Interrupted => Cause::Interrupted,
        };
        Stop { thread, cause }
    }

    /// The thread to show when none is at a breakpoint: the last one, or the first one of the first rank.
    pub(crate) fn current_thread(&mut self) -> ThreadId {
        let processes = self.processes();
        let threads = processes.iter().flat_map(|process| {
            let threads = process.process.threads.iter();
            threads.map(|thread| process.thread(thread))
        });
        let mut threads: Vec<ThreadId> = threads.collect();
        threads.extend(self.kernel_threads());
        let shown = self.shown.filter(|shown| threads.contains(shown));
        let first = threads.first().copied();
        shown.or(first).unwrap_or(ThreadId { pid: 1, tid: 1 })
    }

    fn stepped(&mut self, id: ThreadId) -> Option<Stepped> {
        let (process, thread) = self.find(id)?;
        Some(Stepped {
            process,
            thread,
            id,
        })
    }

    /// Executes one instruction of a thread.
    fn step(&mut self, id: ThreadId, stop: &AtomicBool) -> Result<Stop, SessionError> {
        self.check_alive(id)?;
        for _ in 0..MOST_DETOURS {
            let Some(stepped) = self.stepped(id) else {
                break;
            };
            self.settle_for(stepped.process.node)?;
            let live = self.live(&stepped.process, &stepped.thread);
            let Some(live) = live.filter(|live| live.has_turn) else {
                return self.run_to_user(&stepped, stop);
            };
            let before = self.watched_values();
            let is_done = self.step_live(&stepped, live)?;
            if let Some(stopped) = self.changed_since(&before, id) {
                return Ok(stopped);
            }
            if is_done {
                break;
            }
            // The kernel has taken over: a system call that returns is a whole step, a fault or an interrupt is not.
            let before = live.rip;
            let stopped = self.run_to_user(&stepped, stop)?;
            let now = self.registers_of(id).map(|registers| registers.rip);
            if stopped.cause != Cause::Stepped || now != Some(before) {
                return Ok(stopped);
            }
        }
        self.shown = Some(id);
        Ok(Stop {
            thread: id,
            cause: Cause::Stepped,
        })
    }

    /// Fails if the node of a thread has stopped for good, after which the thread would step never.
    fn check_alive(&mut self, id: ThreadId) -> Result<(), SessionError> {
        let Some((process, _)) = self.find(id) else {
            return Ok(());
        };
        let node = process.node;
        let now = self.timeline.position().time;
        let dead = self.timeline.plan().dead_since(node, now);
        dead.map_or(Ok(()), |at| Err(SessionError::NodeDead { node, at }))
    }

    /// Executes one instruction of a thread that executes user code; false if its kernel has taken over.
    fn step_live(&mut self, stepped: &Stepped, live: LiveThread) -> Result<bool, SessionError> {
        let node = stepped.process.node;
        let retired = self.timeline.runner(node).node().retired();
        self.timeline.step_to(node, retired + 1)?;
        let now = self.live(&stepped.process, &stepped.thread);
        Ok(now.is_some_and(|now| now.vcpu == live.vcpu))
    }

    /// The breakpoints at which a thread leaves its kernel for `address`.
    fn user_breakpoint(stepped: &Stepped, fs_base: u64, address: u64) -> Breakpoint {
        Breakpoint {
            node: stepped.process.node,
            address,
            filter: BreakFilter {
                space: Some(stepped.process.process.tables),
                thread: Some(fs_base),
            },
        }
    }

    /// Runs until a thread executes user code again, to a breakpoint at most.
    fn run_to_user(&mut self, stepped: &Stepped, stop: &AtomicBool) -> Result<Stop, SessionError> {
        let Some(registers) = self.registers_of(stepped.id) else {
            return Err(SessionError::NoThread(stepped.id.tid));
        };
        let target = self.return_address(stepped).unwrap_or(registers.rip);
        let own = Self::user_breakpoint(stepped, registers.bases[0], target);
        let (moved, mut stopped) = self.forward_to(Some(own), stop)?;
        if stopped.thread == stepped.id && moved == Moved::Hit(target) {
            stopped.cause = Cause::Stepped;
        }
        Ok(stopped)
    }

    /// The address of the next user instruction of a thread that has just entered its kernel, which has not saved the
    /// registers yet.
    fn return_address(&self, stepped: &Stepped) -> Option<u64> {
        self.with_kernel(stepped.process.node, |kernel, node| {
            let vcpu = node.current_vcpu();
            let system = node.system_of(vcpu)?;
            let is_kernel = system.segments[1].selector & 3 == 0;
            let is_own = kernel.current(vcpu) == Some(stepped.thread.task);
            if !is_kernel || !is_own {
                return None;
            }
            let registers = node.registers_of(vcpu)?;
            let stack = kernel.space().read(registers.gpr[4], 48)?;
            let words: Vec<u64> = stack
                .chunks_exact(8)
                .map(|word| {
                    word.iter()
                        .rev()
                        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
                })
                .collect();
            // The frame of an interrupt: RIP, CS, RFLAGS, RSP, SS; with an error code before it after some faults.
            let frames = [0, 1];
            let frame = frames
                .iter()
                .find(|at| words[**at + 1] == 0x33 && words.get(**at + 4) == Some(&0x2b));
            frame.map(|at| words[*at]).or_else(|| {
                // SYSCALL keeps the stack and stores the address in RCX.
                kernel
                    .saved(&stepped.thread)
                    .is_none()
                    .then_some(registers.gpr[1])
            })
        })
    }

    /// Moves back by one instruction of a thread.
    fn step_back(&mut self, id: ThreadId, stop: &AtomicBool) -> Result<Stop, SessionError> {
        for _ in 0..MOST_DETOURS {
            let Some(stepped) = self.stepped(id) else {
                return Err(SessionError::NoThread(id.tid));
            };
            let node = stepped.process.node;
            if self
                .live(&stepped.process, &stepped.thread)
                .is_some_and(|it| it.has_turn)
            {
                let here = self.timeline.position();
                let retired = self.timeline.runner(node).node().retired();
                let values = self.watched_values();
                if let Some(before) = retired.checked_sub(1)
                    && self.timeline.back_to(node, before).is_ok()
                {
                    if let Some(stopped) = self.changed_since(&values, id) {
                        return Ok(stopped);
                    }
                    let live = self.live(&stepped.process, &stepped.thread);
                    if live.is_some_and(|live| live.has_turn) {
                        break;
                    }
                    self.timeline.goto(here)?;
                }
            }
            let Some(registers) = self.registers_of(id) else {
                return Err(SessionError::NoThread(id.tid));
            };
            let places = [registers.rip, registers.rip.wrapping_sub(SYSCALL)];
            let own = places.map(|at| Self::user_breakpoint(&stepped, registers.bases[0], at));
            let mut points = self.breakpoints.clone();
            points.extend(own);
            self.timeline.set_breakpoints(points);
            let moved = self.timeline.backward(self.earliest(), stop)?;
            self.begin_with_ranks(&moved)?;
            // An arrival at the same address is that before an interrupt or a fault: the instruction is not passed yet.
            let stopped = self.stop_of(&moved);
            if moved != Moved::Hit(places[0]) || stopped.thread != id {
                let is_step = stopped.thread == id && moved == Moved::Hit(places[1]);
                let cause = if is_step {
                    Cause::Stepped
                } else {
                    stopped.cause
                };
                return Ok(Stop { cause, ..stopped });
            }
        }
        self.shown = Some(id);
        Ok(Stop {
            thread: id,
            cause: Cause::Stepped,
        })
    }
}
