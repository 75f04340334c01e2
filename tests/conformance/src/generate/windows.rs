//! Accesses to a window of `MPI_COMM_WORLD`, under fences, locks, and posts with starts.
//!
//! Every access is inside an epoch, and every epoch that begins ends. Called by the generator.

use super::Generator;
use crate::job::{Access, Action, ActorId, Form, OperationId, Window};

/// The number of the first call of all ranks on the window; communicators have lower ones.
const FIRST: usize = 100;

impl Generator<'_> {
    /// Makes the window, in some jobs.
    pub(super) fn window(&mut self) {
        if self.kinds.accesses && self.one_in(2) {
            let allocated = self.kinds.allocated_windows && self.one_in(2);
            self.together(match allocated {
                true => Window::Allocate,
                false => Window::Create,
            });
        }
    }

    pub(super) fn free_window(&mut self) {
        if self.meetings > 0 {
            self.together(Window::Free);
        }
    }

    /// A call of all ranks on the window.
    fn together(&mut self, window: impl Fn(usize) -> Window) {
        let number = FIRST + self.meetings;
        self.meetings += 1;
        for rank in 0..self.job.ranks {
            let actor = self.main_actor(rank);
            self.push(actor, Form::Window(window(number)), Vec::new());
        }
    }

    /// Accesses of some ranks between two fences, or of one under a lock or after a post.
    pub(super) fn epoch(&mut self) {
        if self.one_in(3) {
            self.posted();
            return;
        }
        if self.one_in(2) {
            self.together(Window::Fence);
            for rank in 0..self.job.ranks {
                if self.one_in(2) {
                    let target = self.other(rank);
                    self.access(rank, target, false);
                }
            }
            self.together(Window::Fence);
            return;
        }
        if self.kinds.lock_all && self.one_in(2) {
            self.locked_all();
            return;
        }
        let rank = self.below(self.job.ranks.into()) as u32;
        let target = self.other(rank);
        let actor = self.main_actor(rank);
        let exclusive = self.one_in(2);
        self.push(
            actor,
            Form::Window(Window::Lock(target, exclusive)),
            Vec::new(),
        );
        self.access(rank, target, true);
        if self.one_in(2) {
            self.push(actor, Form::Window(Window::Flush(target)), Vec::new());
            self.access(rank, target, true);
        }
        self.complete_accesses(actor);
        self.push(actor, Form::Window(Window::Unlock(target)), Vec::new());
    }

    /// Accesses of one rank under a lock of all.
    fn locked_all(&mut self) {
        let rank = self.below(self.job.ranks.into()) as u32;
        let actor = self.main_actor(rank);
        self.push(actor, Form::Window(Window::LockAll), Vec::new());
        for _ in 0..1 + self.below(4) {
            let target = self.other(rank);
            self.access(rank, target, true);
            if self.one_in(3) {
                self.push(actor, Form::Window(Window::FlushAll), Vec::new());
            }
        }
        self.complete_accesses(actor);
        self.push(actor, Form::Window(Window::UnlockAll), Vec::new());
    }

    /// Waits for accesses with requests, before the lock ends under which they are.
    fn complete_accesses(&mut self, actor: ActorId) {
        let is_access = |operation: &OperationId| {
            matches!(
                self.job.operations[*operation].action,
                Action::Access { .. }
            )
        };
        if self.open[actor].iter().any(is_access) {
            self.complete(actor, true);
        }
    }

    /// Accesses of one rank to another, which posts and waits.
    fn posted(&mut self) {
        let origin = self.below(self.job.ranks.into()) as u32;
        let target = self.other(origin);
        let [from, to] = [origin, target].map(|rank| self.main_actor(rank));
        let post = FIRST + self.meetings;
        self.meetings += 2;
        let mut call = |actor, window| self.push(actor, Form::Window(window), Vec::new());
        call(to, Window::Group(origin));
        call(from, Window::Group(target));
        call(to, Window::Post(origin, post));
        call(from, Window::Start(target, post));
        self.access(origin, target, false);
        self.push(from, Form::Window(Window::Complete(post + 1)), Vec::new());
        self.push(to, Form::Window(Window::Wait(post + 1)), Vec::new());
    }

    /// Another rank.
    fn other(&mut self, rank: u32) -> u32 {
        let apart = 1 + self.below(u64::from(self.job.ranks) - 1) as u32;
        (rank + apart) % self.job.ranks
    }

    /// An access, under a lock also one with a request.
    fn access(&mut self, rank: u32, target: u32, locked: bool) {
        let access = match self.below(3) {
            0 => Access::Put,
            1 => Access::Get,
            _ => Access::Accumulate,
        };
        let bytes = 8 * (1 + self.below(100));
        let action = Action::Access {
            access,
            target,
            bytes,
        };
        let actor = self.main_actor(rank);
        let operation: OperationId = self.operation(actor, 0, action);
        let request = locked && self.kinds.access_requests && self.one_in(2);
        self.begin(actor, operation, request);
    }
}
