//! Positions of the kernel's variables and of members of its structures, from its file.
//!
//! They are the same on all nodes with this kernel, because guests boot with `nokaslr`. A kernel without one of them is
//! refused with its name. Read once for each image of a session.

use std::collections::BTreeMap;

use belljar_symbols::KernelSymbols;
use object::{Object, ObjectSection};

use crate::btf::{Btf, BtfError};

/// Errors of finding them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The kernel has no table of symbols, or lacks a variable.
    #[error(
        "the kernel's table of symbols has no {0}; processes are only visible with a kernel that has CONFIG_KALLSYMS_ALL"
    )]
    Variable(&'static str),
    /// The kernel has no type information.
    #[error(
        "the kernel has no type information (section .BTF); processes are only visible with a kernel that has CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes,
    /// Its type information is unusable.
    #[error(transparent)]
    Types(#[from] BtfError),
}

/// Offsets in `struct task_struct`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskOffsets {
    pub(crate) tasks: u64,
    pub(crate) thread_node: u64,
    pub(crate) signal: u64,
    pub(crate) pid: u64,
    pub(crate) tgid: u64,
    pub(crate) comm: u64,
    pub(crate) mm: u64,
    pub(crate) stack: u64,
    pub(crate) fs_base: u64,
    pub(crate) gs_base: u64,
    pub(crate) vectors: u64,
    /// True if [`vectors`](Self::vectors) is a pointer to the registers' container.
    pub(crate) vectors_apart: bool,
    pub(crate) exit_code: u64,
    pub(crate) exit_state: u64,
}

/// Offsets in `struct mm_struct`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryOffsets {
    pub(crate) pgd: u64,
    pub(crate) auxv: u64,
    pub(crate) env_start: u64,
    pub(crate) env_end: u64,
    pub(crate) arg_start: u64,
    pub(crate) arg_end: u64,
    pub(crate) exe_file: u64,
}

/// Offsets on the way from an open file to its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathOffsets {
    /// In `struct file`: the mount and the entry of its path.
    pub(crate) mount: u64,
    pub(crate) dentry: u64,
    /// In `struct vfsmount`: its topmost entry.
    pub(crate) mount_root: u64,
    /// In `struct mount`: its `vfsmount`, the mount around it, and its place there.
    pub(crate) mounted: u64,
    pub(crate) mount_parent: u64,
    pub(crate) mount_point: u64,
    /// In `struct dentry`.
    pub(crate) parent: u64,
    pub(crate) name: u64,
}

/// Offsets and addresses for the waits of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitOffsets {
    /// In `struct task_struct`.
    pub(crate) state: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) files: u64,
    /// In `struct signal_struct`: the state of the real timer, timers of processor time, the list of POSIX timers.
    pub(crate) real_timer: u64,
    pub(crate) cpu_timers: u64,
    pub(crate) posix_timers: u64,
    /// In `struct signal_struct`: the resource limits.
    pub(crate) limits: u64,
    /// In `struct files_struct` and `struct fdtable`.
    pub(crate) file_table: u64,
    pub(crate) file_count: u64,
    pub(crate) file_array: u64,
    /// In `struct file`.
    pub(crate) operations: u64,
    pub(crate) private: u64,
    /// In `struct socket`, and in its `struct sock`.
    pub(crate) socket: u64,
    pub(crate) receive_timeout: u64,
    /// Addresses of the operations of files that are timers, and of sockets.
    pub(crate) timer_files: u64,
    pub(crate) socket_files: u64,
}

/// The positions of everything that is read from a guest's kernel.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(crate) init_task: u64,
    pub(crate) page_tables: u64,
    /// The array of offsets of processors' own variables.
    pub(crate) per_cpu: u64,
    /// Offset of the pointer to the running task among them.
    pub(crate) current: u64,
    pub(crate) direct_map: u64,
    pub(crate) thread_head: u64,
    pub(crate) task: TaskOffsets,
    pub(crate) memory: MemoryOffsets,
    pub(crate) path: PathOffsets,
    /// `None` for a kernel that lacks one of them.
    pub(crate) wait: Option<WaitOffsets>,
    functions: BTreeMap<&'static str, u64>,
}

/// Functions of the kernel at which debuggers stop.
const FUNCTIONS: [&str; 2] = ["do_exit", "force_sig_fault"];

impl Layout {
    /// Finds the positions in the unpacked kernel `vmlinux`.
    ///
    /// # Errors
    /// See [`LayoutError`].
    pub fn of(vmlinux: &[u8]) -> Result<Self, LayoutError> {
        const NAMES: [&str; 10] = [
            "init_task",
            "init_top_pgt",
            "__per_cpu_offset",
            "pcpu_hot",
            "current_task",
            "page_offset_base",
            "do_exit",
            "force_sig_fault",
            "timerfd_fops",
            "socket_file_ops",
        ];
        let known = KernelSymbols::positions(vmlinux, &NAMES);
        let variable = |name: &'static str| {
            let found = known.get(name).copied();
            found.ok_or(LayoutError::Variable(name))
        };
        let file = object::File::parse(vmlinux).map_err(|_| LayoutError::NoTypes)?;
        let section = file.section_by_name(".BTF").ok_or(LayoutError::NoTypes)?;
        let btf = Btf::read(section.data().map_err(|_| LayoutError::NoTypes)?)?;
        let current = match variable("pcpu_hot") {
            Ok(hot) => hot + btf.offset("pcpu_hot", "current_task")?,
            Err(_) => variable("current_task")?,
        };
        let functions = FUNCTIONS.iter();
        let functions = functions.filter_map(|name| Some((*name, *known.get(name)?)));
        Ok(Self {
            init_task: variable("init_task")?,
            page_tables: variable("init_top_pgt")?,
            per_cpu: variable("__per_cpu_offset")?,
            current,
            direct_map: variable("page_offset_base")?,
            thread_head: btf.offset("signal_struct", "thread_head")?,
            task: task(&btf)?,
            memory: memory(&btf)?,
            wait: wait(&btf, &variable).ok(),
            path: PathOffsets {
                mount: btf.offset("file", "f_path.mnt")?,
                dentry: btf.offset("file", "f_path.dentry")?,
                mount_root: btf.offset("vfsmount", "mnt_root")?,
                mounted: btf.offset("mount", "mnt")?,
                mount_parent: btf.offset("mount", "mnt_parent")?,
                mount_point: btf.offset("mount", "mnt_mountpoint")?,
                parent: btf.offset("dentry", "d_parent")?,
                name: btf.offset("dentry", "d_name.name")?,
            },
            functions: functions.collect(),
        })
    }

    /// The address of a function of the kernel at which debuggers stop: `do_exit`, and `force_sig_fault`, which sends a
    /// signal for a fault of user code.
    pub fn function(&self, name: &str) -> Option<u64> {
        self.functions.get(name).copied()
    }
}

fn task(btf: &Btf) -> Result<TaskOffsets, BtfError> {
    let of = |member| btf.offset("task_struct", member);
    let vectors_apart = btf.has("task_struct", "thread.fpu.fpstate");
    let vectors = match vectors_apart {
        true => of("thread.fpu.fpstate")?,
        false => of("thread.fpu.state")?,
    };
    Ok(TaskOffsets {
        tasks: of("tasks")?,
        thread_node: of("thread_node")?,
        signal: of("signal")?,
        pid: of("pid")?,
        tgid: of("tgid")?,
        comm: of("comm")?,
        mm: of("mm")?,
        stack: of("stack")?,
        fs_base: of("thread.fsbase")?,
        gs_base: of("thread.gsbase")?,
        vectors,
        vectors_apart,
        exit_code: of("exit_code")?,
        exit_state: of("exit_state")?,
    })
}

fn wait(
    btf: &Btf,
    variable: &impl Fn(&'static str) -> Result<u64, LayoutError>,
) -> Result<WaitOffsets, LayoutError> {
    // Linux before 5.14 has no underscores.
    let state = match btf.has("task_struct", "__state") {
        true => "__state",
        false => "state",
    };
    Ok(WaitOffsets {
        state: btf.offset("task_struct", state)?,
        voluntary: btf.offset("task_struct", "nvcsw")?,
        involuntary: btf.offset("task_struct", "nivcsw")?,
        files: btf.offset("task_struct", "files")?,
        real_timer: btf.offset("signal_struct", "real_timer.state")?,
        cpu_timers: btf.offset("signal_struct", "it")?,
        posix_timers: btf.offset("signal_struct", "posix_timers")?,
        limits: btf.offset("signal_struct", "rlim")?,
        file_table: btf.offset("files_struct", "fdt")?,
        file_count: btf.offset("fdtable", "max_fds")?,
        file_array: btf.offset("fdtable", "fd")?,
        operations: btf.offset("file", "f_op")?,
        private: btf.offset("file", "private_data")?,
        socket: btf.offset("socket", "sk")?,
        receive_timeout: btf.offset("sock", "sk_rcvtimeo")?,
        timer_files: variable("timerfd_fops")?,
        socket_files: variable("socket_file_ops")?,
    })
}

fn memory(btf: &Btf) -> Result<MemoryOffsets, BtfError> {
    let of = |member| btf.offset("mm_struct", member);
    Ok(MemoryOffsets {
        pgd: of("pgd")?,
        auxv: of("saved_auxv")?,
        env_start: of("env_start")?,
        env_end: of("env_end")?,
        arg_start: of("arg_start")?,
        arg_end: of("arg_end")?,
        exe_file: of("exe_file")?,
    })
}
