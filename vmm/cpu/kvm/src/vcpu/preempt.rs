//! A timer of the host thread, which ends a guest's run in time.
//!
//! The timer's signal goes to that thread and sets `immediate_exit` in the page shared with KVM for
//! the running vCPU: the guest exits at once, or is not entered if the signal comes first. So there
//! is no race between reading the clock and entering.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use kvm_ioctls::VcpuFd;
use libc::{c_int, c_void, siginfo_t};

const NANOSECONDS: u64 = 1_000_000_000;
/// The `si_code` of a timer's signal.
const FROM_TIMER: c_int = -2;

/// A pointer to the flag that a thread's signal handler sets; null while the thread runs no guest.
struct Slot {
    flag: AtomicPtr<u8>,
}

/// A thread's timer.
pub(crate) struct Alarm {
    timer: libc::timer_t,
    slot: &'static Slot,
}

thread_local! {
    static ALARM: RefCell<Option<Alarm>> = const { RefCell::new(None) };
}

/// Calls `run` with this thread's timer set to stop `vcpu` after `nanoseconds`.
///
/// # Errors
/// If the host refuses the timer.
pub(crate) fn with_alarm<T>(
    vcpu: &mut VcpuFd,
    nanoseconds: u64,
    run: impl FnOnce(&mut VcpuFd) -> T,
) -> io::Result<T> {
    ALARM.with_borrow_mut(|alarm| {
        let alarm = match alarm {
            Some(alarm) => alarm,
            None => alarm.insert(Alarm::new()?),
        };
        let page = vcpu.get_kvm_run();
        page.immediate_exit = 0;
        let flag = &raw mut page.immediate_exit;
        alarm.slot.flag.store(flag, Ordering::Release);
        let result = alarm.set(nanoseconds.max(1)).map(|()| run(vcpu));
        alarm.slot.flag.store(null_mut(), Ordering::Release);
        let result = result?;
        Ok(result)
    })
}

impl Alarm {
    fn new() -> io::Result<Self> {
        let signal = install()?;
        // It lives as long as the process, because a signal may come late.
        let slot: &'static Slot = Box::leak(Box::new(Slot {
            flag: AtomicPtr::new(null_mut()),
        }));
        let mut timer = null_mut();
        // SAFETY: every field of the structure may be zero; the kernel fills `timer`.
        let made = unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_notify_thread_id = libc::gettid();
            event.sigev_value.sival_ptr = std::ptr::from_ref(slot).cast_mut().cast();
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
        };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { timer, slot })
    }

    fn set(&self, nanoseconds: u64) -> io::Result<()> {
        let time = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: (nanoseconds / NANOSECONDS) as i64,
                tv_nsec: (nanoseconds % NANOSECONDS) as i64,
            },
        };
        // SAFETY: the timer is ours, and the kernel reads the structure only.
        let set = unsafe { libc::timer_settime(self.timer, 0, &raw const time, null_mut()) };
        if set == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: this value owns the timer, and it is not used afterwards.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Installs the handler once; returns the signal's number.
fn install() -> io::Result<c_int> {
    static INSTALLED: OnceLock<Result<c_int, i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        let signal = libc::SIGRTMIN() + 1;
        // SAFETY: the handler only uses async-signal-safe operations, and is never removed.
        let result = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, &raw const action, null_mut())
        };
        match result {
            0 => Ok(signal),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        }
    });
    installed.map_err(io::Error::from_raw_os_error)
}

extern "C" fn on_signal(_: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid structure. A timer's signal carries the address of that
    // thread's slot, which lives forever. The flag's page is mapped while the slot points to it,
    // because the thread that runs this handler clears the slot first.
    unsafe {
        if (*info).si_code != FROM_TIMER {
            return;
        }
        let slot = (*info).si_value().sival_ptr.cast::<Slot>();
        let flag = (*slot).flag.load(Ordering::Acquire);
        if !flag.is_null() {
            flag.write_volatile(1);
        }
    }
}
