//! The run loop: turn by turn, exit by exit.
//!
//! Events and their cycles depend on the node and on its deliveries, not on the ends of runs. Due
//! events are handled before an instruction that begins at their cycle. Owners of nodes call
//! `run_until`, `run_ahead` and `pause_at`.

use belljar_cpu::{Cycles, Exit};
use belljar_devices::Moment;
use belljar_devices::apic::StartSignal;
use belljar_sim::{Span, Time};

use super::arrivals::NodeInput;
use super::exits::{self, ExitAction};
use super::processor::{Activity, Processor};
use super::{Node, NodeError, NodeStop};

impl Node {
    /// Runs until the clocks of all processors reach `limit`, or until an event stops the node.
    /// Events due at `limit` itself are handled in the next run, so deliveries for that very time
    /// can still precede them.
    ///
    /// A node that ended (power-off, reset, shutdown, hang) returns the same stop again.
    ///
    /// # Errors
    /// [`NodeError`] if the host fails the engine or a disk; the guest cannot cause one.
    pub fn run_until(&mut self, limit: Time) -> Result<NodeStop, NodeError> {
        self.run_while(self.frequency.cycle_at(limit), None)
    }

    /// Runs for a caller that has other nodes to run: until about `limit`, never beyond it. It
    /// returns [`NodeStop::Limit`] earlier:
    /// - some instructions before `limit`, if stopping there costs less; for a node with several
    ///   processors, only between slices that fit before `limit`;
    /// - `echo` after the first frame that it sent, before which no answer can come, so that
    ///   `limit` need not consider answers;
    /// - when the guest wrote to its control console.
    ///
    /// The guest's behaviour does not depend on these.
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    pub fn run_ahead(&mut self, limit: Time, echo: Span) -> Result<NodeStop, NodeError> {
        self.run_while(self.frequency.cycle_at(limit), Some(echo))
    }

    /// The cycle that a run for a caller with other nodes must not exceed at present.
    fn bound(&self, limit: Cycles, echo: Span) -> Cycles {
        if self.devices.has_output() {
            return 0;
        }
        self.devices.first_frame().map_or(limit, |sent| {
            let answer = self.frequency.time_of(sent) + echo;
            limit.min(self.frequency.cycle_at(answer))
        })
    }

    fn run_while(&mut self, limit: Cycles, echo: Option<Span>) -> Result<NodeStop, NodeError> {
        self.disturb();
        loop {
            if let Some(stop) = self.ended {
                return Ok(stop);
            }
            if let Some(at) = self.magic {
                let vcpu = self.current_vcpu();
                return Ok(NodeStop::Magic { at, vcpu });
            }
            if let Some(seen) = self.seen.take() {
                return Ok(seen);
            }
            if self.pause < u64::MAX && self.retired() >= self.pause {
                return Ok(NodeStop::Paused);
            }
            let limit = echo.map_or(limit, |echo| self.bound(limit, echo));
            let Some(end) = self.find_turn(limit, echo.is_some()) else {
                return Ok(NodeStop::Limit);
            };
            let about = echo.is_some() && !self.rotation.has_slices();
            if self.take_turn(end, about)? {
                self.foresee();
                return Ok(NodeStop::Limit);
            }
        }
    }

    /// Makes runs stop with [`NodeStop::Paused`] when all processors together have retired
    /// `instructions`, before any other event; `u64::MAX` for never. Stopping does not affect the
    /// guest.
    pub fn pause_at(&mut self, instructions: u64) {
        self.disturb();
        self.pause = instructions;
        if instructions == u64::MAX {
            for processor in &mut self.processors {
                processor.vcpu.stop_at(u64::MAX);
            }
        }
    }

    /// Passes the turn to the next processor that is before `limit`, and returns the turn's end;
    /// `None` if all processors have reached it. With `whole`, slices are not cut: slices that
    /// would end after `limit` do not begin.
    fn find_turn(&mut self, limit: Cycles, whole: bool) -> Option<Cycles> {
        let whole = whole && self.rotation.has_slices();
        loop {
            let slice = self.rotation.end;
            let end = if whole { slice } else { slice.min(limit) };
            let rest = &self.processors[self.rotation.current..];
            if let Some(ahead) = rest.iter().position(|one| one.now() < end) {
                self.rotation.current += ahead;
                if !self.sleeps_through(end) {
                    return Some(end);
                }
                self.current_mut().vcpu.skip_to(end);
                continue;
            }
            self.rotation.current = 0;
            if slice >= limit || !self.begin_slice(limit, whole) {
                return None;
            }
        }
    }

    /// True if the current processor sleeps until `end` while others run: a fast path for turns
    /// without instructions, which are frequent.
    fn sleeps_through(&self, end: Cycles) -> bool {
        let current = self.current();
        let local = self.devices.interrupts.local(self.rotation.current);
        let runs = |one: &Processor| one.activity == Activity::Running;
        !runs(current)
            && !current.is_busy(local)
            && self.next_of_current().is_none_or(|next| next >= end)
            && self.processors.iter().any(runs)
    }

    /// Begins the next slice, or, if all processors sleep, the slice of the next event. Returns
    /// false if it must be `whole` and is not over at `limit`.
    fn begin_slice(&mut self, limit: Cycles, whole: bool) -> bool {
        let mut now = self.now_cycles();
        if !self.has_busy() && !self.is_hung() {
            let until = self.next_cycle().map_or(limit, |next| next.min(limit));
            now = now.max(self.rotation.begin(until));
            for processor in &mut self.processors {
                processor.vcpu.skip_to(now);
            }
        }
        let end = self.until_card_acts(now, self.rotation.end_of(now));
        let fits = !whole || end <= limit;
        self.rotation.end = if fits { end } else { now };
        if fits {
            self.share_paths(now);
        }
        fits
    }

    /// The end of a slice that would end at `end`: no later than the first event of an InfiniBand card, so that no processor sees memory
    /// that the card writes after its own time.
    fn until_card_acts(&self, now: Cycles, end: Cycles) -> Cycles {
        match self.rotation.has_slices() && self.devices.has_card() {
            true => {
                let own = self.devices.card_event_after(now);
                let next = own.into_iter().chain(self.arrivals.next_after(now));
                next.min().map_or(end, |next| next.min(end))
            }
            false => end,
        }
    }

    /// Ends the span of the paths that processors share: the lines that they moved in it determine the cost of lines in
    /// the next one.
    fn share_paths(&mut self, now: Cycles) {
        let used = self.processors.iter().map(|one| one.vcpu.path_use());
        let Some(moved) = used
            .map(|used| Some(used?.lines))
            .collect::<Option<Vec<_>>>()
        else {
            return;
        };
        for processor in &mut self.processors {
            processor.vcpu.share_paths(now, &moved);
        }
    }

    fn has_busy(&self) -> bool {
        let mut each = self.processors.iter().enumerate();
        each.any(|(index, one)| one.is_busy(self.devices.interrupts.local(index)))
    }

    /// Runs the current processor up to its next event, its next exit, or `end`, or about there
    /// with `about`. Returns true if it reached the end by execution alone.
    fn take_turn(&mut self, end: Cycles, about: bool) -> Result<bool, NodeError> {
        if !self.current().unfinished {
            if let Some(until) = self.detour_of_current() {
                self.lose_time(until.min(end));
                return Ok(false);
            }
            self.fire_due()?;
            self.see_devices();
            if self.seen.is_some() {
                return Ok(false);
            }
            self.obey_starts();
            let local = self.devices.interrupts.local_mut(self.rotation.current);
            let processor = &mut self.processors[self.rotation.current];
            self.counts.interrupts += processor.take_interrupts(local);
        }
        if self.ended.is_some() {
            return Ok(false);
        }
        let next = self.next_of_current().filter(|next| *next < end);
        if self.current().activity == Activity::Running {
            if !self.current().unfinished
                && let Some(sample) = self.take_sample()
            {
                self.seen = Some(sample);
                return Ok(false);
            }
            let sample = self.sample_of_current().filter(|sample| *sample < end);
            let detour = self.next_detour().filter(|detour| *detour < end);
            let next = next.into_iter().chain(sample).chain(detour).min();
            let about = about && next.is_none();
            Ok(self.execute(next.unwrap_or(end), about)? && about)
        } else {
            self.wait(next.unwrap_or(end));
            Ok(false)
        }
    }

    /// Advances a sleeping processor's clock.
    fn wait(&mut self, until: Cycles) {
        if self.current().is_dead() && self.is_hung() {
            self.ended = Some(NodeStop::Hung);
        } else {
            self.current_mut().vcpu.skip_to(until);
        }
    }

    /// True if no processor can continue and no message is pending for one.
    fn is_hung(&self) -> bool {
        let mut each = self.processors.iter().enumerate();
        each.all(|(index, one)| {
            one.is_dead() && !self.devices.interrupts.local(index).expects_messages()
        })
    }

    /// Executes the current processor until `until`, or about there with `about`. Returns true if
    /// it only executed.
    fn execute(&mut self, until: Cycles, about: bool) -> Result<bool, NodeError> {
        let index = self.rotation.current;
        let left = self.pause.saturating_sub(self.retired_if_paused());
        let processor = &mut self.processors[index];
        // The answered read may have raised an interrupt, which the instruction's end admits.
        processor.ask_for_window(self.devices.interrupts.local(index));
        if self.pause < u64::MAX {
            let vcpu = &mut processor.vcpu;
            vcpu.stop_at(vcpu.retired().saturating_add(left));
        }
        let exit = if about {
            processor.vcpu.run_about(until)?
        } else {
            processor.vcpu.run(until)?
        };
        processor.unfinished = false;
        self.note_ran();
        self.carry_out(&exit)?;
        Ok(exit == Exit::Deadline)
    }

    /// Performs an exit of the current processor.
    pub(super) fn carry_out(&mut self, exit: &Exit) -> Result<(), NodeError> {
        self.counts.count(exit);
        let at = self.moment();
        let action = exits::handle(exit, &mut self.devices, at)?;
        self.act(action);
        self.see_devices();
        Ok(())
    }

    fn retired_if_paused(&self) -> u64 {
        if self.pause < u64::MAX {
            self.retired()
        } else {
            0
        }
    }

    fn act(&mut self, action: ExitAction) {
        let index = self.rotation.current;
        let processor = &mut self.processors[index];
        match action {
            ExitAction::Continue => {}
            ExitAction::Answer(value) => {
                processor.vcpu.complete_read(value);
                processor.unfinished = true;
            }
            ExitAction::RefuseMsr => {
                processor.vcpu.refuse_msr();
                processor.unfinished = true;
            }
            ExitAction::TakeTaskPriority => {
                let class = processor.vcpu.task_priority();
                let local = self.devices.interrupts.local_mut(index);
                local.set_task_class(class);
            }
            ExitAction::SetTaskPriority(class) => processor.vcpu.set_task_priority(class),
            ExitAction::Halt => processor.activity = Activity::Halted,
            ExitAction::Magic(at) => self.magic = Some(at),
            ExitAction::Probe(probe) => {
                let vcpu = index as u32;
                self.seen = Some(NodeStop::Probe { probe, vcpu });
            }
            ExitAction::Return(at) => {
                let vcpu = index as u32;
                self.seen = Some(NodeStop::Return { at, vcpu });
            }
            ExitAction::Watchpoint(number, write) => {
                self.seen = Some(NodeStop::Watchpoint {
                    number,
                    write,
                    device: false,
                    vcpu: index as u32,
                });
            }
            ExitAction::Buffer => {
                let at = processor.now();
                let vcpu = index as u32;
                self.seen = Some(NodeStop::Buffer { at, vcpu });
            }
            ExitAction::End(stop) => self.ended = Some(stop),
        }
    }

    /// The present time of the processor whose turn it is.
    fn moment(&self) -> Moment {
        Moment {
            processor: self.rotation.current,
            now: self.current().now(),
        }
    }

    /// Handles events due at or before the present time.
    fn fire_due(&mut self) -> Result<(), NodeError> {
        let at = self.moment();
        self.devices.advance(at)?;
        while let Some(bytes) = self.commands.take_due(at.now) {
            self.devices.receive_control(&bytes, at)?;
        }
        while let Some(arrival) = self.arrivals.pop_due(at.now) {
            match arrival {
                NodeInput::Frame(frame) => self.devices.receive_frame(frame, at)?,
                NodeInput::Packet(packet) => self.devices.receive_packet(&packet, at),
                NodeInput::Control(bytes) => self.devices.receive_control(&bytes, at)?,
                NodeInput::Console(bytes) => self.devices.receive_console(&bytes, at),
            }
        }
        Ok(())
    }

    /// Resets and starts the current processor by the signals sent to it. An INIT of the first
    /// processor would enter the firmware, which does not exist here; it resets the node.
    fn obey_starts(&mut self) {
        let index = self.rotation.current;
        while let Some(signal) = self.devices.interrupts.local_mut(index).take_start() {
            if index == 0 && signal == StartSignal::Init {
                self.ended = Some(NodeStop::Reset);
                return;
            }
            self.processors[index].obey(signal);
        }
    }

    /// The time of the next event of the whole node, handled by the first processor to reach it.
    pub(super) fn next_shared(&self) -> Option<Cycles> {
        let devices = self.devices.deadline().into_iter();
        let inputs = self.arrivals.next().into_iter().chain(self.commands.next());
        devices.chain(inputs).min()
    }

    pub(super) fn next_of_current(&self) -> Option<Cycles> {
        let local = self.devices.interrupts.local(self.rotation.current);
        local
            .next_deadline()
            .into_iter()
            .chain(self.next_shared())
            .min()
    }

    /// The time of the next event of any processor or device.
    pub(super) fn next_cycle(&self) -> Option<Cycles> {
        let all = 0..self.processors.len();
        all.filter_map(|index| self.devices.interrupts.local(index).next_deadline())
            .chain(self.next_shared())
            .min()
    }
}
