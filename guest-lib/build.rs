//! Compiles the preloaded library: a freestanding shared object, independent of cargo's profiles (and their unwinding).

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_abi as abi;

/// Unwind rules for the callers of traced calls.
#[path = "build/unwind.rs"]
mod unwind;

fn main() {
    println!("cargo::rerun-if-changed=preload");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    write(&out.join("constants.rs"), &constants());
    write(&out.join("functions.s"), &functions());
    // All other symbols are local, because code that runs before relocation must not need symbol lookup.
    write(
        &out.join("exports"),
        "{ global: MPI_*; PMPI_*; MPIX_*; PMPIX_*; local: *; };\n",
    );
    for name in ["preload.rs", "search.rs", "process.rs"] {
        let source = fs::read_to_string(Path::new("preload").join(name));
        write(
            &out.join(name),
            &source.expect("the library's source is here"),
        );
    }
    compile(&out);
    former_part(&out);
}

/// Compiles a stand-in for parts of glibc that have been in `libc.so.6` since 2.34: without code, with the versions
/// that programs linked to an older glibc need.
fn former_part(out: &Path) {
    let before = ["2.2.5", "2.2.6", "2.3", "2.3.2", "2.3.3", "2.3.4"].map(str::to_owned);
    let numbered = (4..=33).map(|minor| format!("2.{minor}"));
    let versions = before.into_iter().chain(numbered);
    let script: String = versions
        .map(|version| format!("GLIBC_{version} {{ }};\n"))
        .collect();
    write(&out.join("versions"), &script);
    write(
        &out.join("empty.s"),
        ".section .note.GNU-stack,\"\",@progbits\n",
    );
    run(
        Command::new("cc")
            .current_dir(out)
            .args(["-shared", "-nostdlib", "-nostartfiles"])
            .args([
                "-Wl,-z,noexecstack",
                "-Wl,--version-script=versions",
                "-Wl,--build-id=none",
                "-Wl,--strip-debug",
            ])
            .args(["-o", "libpart.so", "empty.s"]),
        "cc, the C compiler's driver,",
    );
}

fn write(path: &Path, text: &str) {
    fs::write(path, text)
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// Compiles an object file with rustc and links it with the C compiler's driver: rustc's own link step would not export
/// symbols defined in assembly.
fn compile(out: &Path) {
    let rustc = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let remap = format!("{}=preload", out.display());
    run(
        Command::new(rustc)
            .current_dir(out)
            .args([
                "--edition=2024",
                "--crate-name=belljar",
                "--emit=obj",
                "--target=x86_64-unknown-linux-gnu",
            ])
            .args([
                "-Copt-level=2",
                "-Cpanic=abort",
                "-Cdebuginfo=0",
                "-Crelocation-model=pic",
                "-Ccodegen-units=1",
            ])
            .args([
                "--remap-path-prefix",
                &remap,
                "-o",
                "preload.o",
                "preload.rs",
            ]),
        "rustc",
    );
    run(
        Command::new("cc")
            .current_dir(out)
            .args([
                "-shared",
                "-nostdlib",
                "-nostartfiles",
                "-Wl,-z,now",
                "-Wl,-z,defs",
                "-Wl,-z,noexecstack",
                "-Wl,--version-script=exports",
            ])
            .args([
                "-Wl,-soname,libbelljar.so",
                "-Wl,--build-id=none",
                "-Wl,--strip-debug",
            ])
            .args(["-o", "libbelljar.so", "preload.o"]),
        "cc, the C compiler's driver,",
    );
}

fn run(command: &mut Command, name: &str) {
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
    assert!(
        status.success(),
        "{name} could not build a library for guests"
    );
}

fn constants() -> String {
    let word =
        |at: usize| u32::from_le_bytes(abi::SIGNATURE[at..at + 4].try_into().expect("four bytes"));
    let init = belljar_mpi::number("MPI_Init").expect("the table has MPI_Init");
    let (names, starts) = names();
    let objects = abi::OPEN_MPI_OBJECTS.iter().map(|(name, _)| *name);
    let objects: String = objects.map(|name| format!("{name}\\0")).collect();
    let mut text = format!(
        "const SIGNATURE: [u32; 3] = [{:#x}, {:#x}, {:#x}];\n\
         const MAGIC_CPUID: [u8; 2] = {:?};\nconst MAGIC_INT3: [u8; 2] = {:?};\n\
         const DETECT_LEAF: u32 = {:#x};\nconst DETECT_INT3: u32 = {:#x};\n\
         const OP_RETURN: u32 = {:#x};\nconst FACT_LEAF: u32 = {:#x};\n\
         const RANK_VARIABLES: [&[u8]; 3] = [b\"PMI_RANK\", b\"OMPI_COMM_WORLD_RANK\", b\"PMIX_RANK\"];\n\
         const NAMES: &[u8] = b\"{names}\";\nconst NAME_STARTS: &[u16] = &{starts:?};\n\
         const OBJECT_NAMES: &[u8] = b\"{objects}\\0\";\n\
         const STANDARD_ABI_NAME: &[u8] = b\"{}\";\nconst MPICH_MARK: &[u8] = b\"{}\\0\";\n",
        word(0),
        word(4),
        word(8),
        abi::MAGIC_CPUID,
        abi::MAGIC_INT3,
        abi::DETECT_LEAF,
        abi::DETECT_INT3,
        abi::OP_RETURN,
        abi::FACT_LEAF,
        abi::STANDARD_ABI_NAME,
        abi::MPICH_MARK,
    );
    for (name, value) in [
        ("STUB_BASE", abi::STUB_BASE),
        ("STUB_LENGTH", abi::STUB_LENGTH),
        ("RETURN_ADDRESS", abi::RETURN_ADDRESS),
        ("FACT_ADDRESS", abi::FACT_ADDRESS),
        ("FIRST_STUB", abi::FIRST_STUB),
        ("STUB_SIZE", abi::STUB_SIZE),
        ("STUB_JUMP", abi::STUB_JUMP),
        ("TABLE_OFFSET", abi::TABLE_OFFSET),
        ("UNRESOLVED", abi::UNRESOLVED),
        ("PASSED_BY", abi::PASSED_BY),
        ("RESOLVER_SIZE", abi::RESOLVER_SIZE),
        ("RETURN_OFFSET", abi::RETURN_OFFSET),
        ("RESOLVERS_OFFSET", abi::RESOLVERS_OFFSET),
        ("PENDING_OFFSET", abi::PENDING_OFFSET),
        ("PENDING_LENGTH", abi::PENDING_LENGTH),
        ("FACT_PROCESS", abi::fact::PROCESS.into()),
        ("FACT_OBJECTS", abi::fact::OPEN_MPI_OBJECTS.into()),
        ("FACT_ENVIRONMENT", abi::fact::ENVIRONMENT.into()),
        ("FACT_LIBRARY", abi::fact::LIBRARY.into()),
        ("MPICH", abi::IMPLEMENTATION_MPICH),
        ("OPEN_MPI", abi::IMPLEMENTATION_OPEN_MPI),
        ("ABI_MPICH", abi::IMPLEMENTATION_ABI_MPICH),
        ("ABI_OPEN_MPI", abi::IMPLEMENTATION_ABI_OPEN_MPI),
        ("ABI_UNKNOWN", abi::IMPLEMENTATION_ABI_UNKNOWN),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "const {name}: u64 = {value:#x};");
    }
    for (name, value) in [
        ("FUNCTION_COUNT", belljar_mpi::FUNCTIONS.len()),
        ("OPERATIONS", abi::OPERATIONS),
        ("OBJECT_COUNT", abi::OPEN_MPI_OBJECTS.len()),
        ("INIT", usize::from(init)),
    ] {
        let _ = writeln!(text, "const {name}: usize = {value};");
    }
    text
}

/// The functions' names in the profiling interface, concatenated, and the offset of each. In one piece, they contain no
/// addresses that a dynamic linker would have to relocate.
fn names() -> (String, Vec<usize>) {
    let (mut names, mut starts, mut at) = (String::new(), Vec::new(), 0);
    for function in belljar_mpi::FUNCTIONS {
        let _ = write!(names, "P{}\\0", function.name);
        starts.push(at);
        at += function.name.len() + 2;
    }
    (names, starts)
}

/// Assembly for every operation: an exported indirect function, whose resolver returns the stub under Belljar and a
/// forward elsewhere.
fn functions() -> String {
    let mut text = String::from(COMMON);
    text += &unwind::returned();
    let count = belljar_mpi::FUNCTIONS.len();
    for operation in 0..abi::OPERATIONS {
        let _ = writeln!(
            text,
            ".balign {}\n\
             .Lresolve_{operation}: mov ${operation}, %r11d\njmp belljar_resolve",
            abi::RESOLVER_SIZE
        );
    }
    for operation in 0..abi::OPERATIONS {
        let prefix = if operation < count { "" } else { "P" };
        let name = belljar_mpi::FUNCTIONS[operation % count].name;
        let _ = writeln!(
            text,
            ".Lforward_{operation}: mov belljar_next+{}(%rip), %r11\n\
             test %r11, %r11\njz .Lresolve_{operation}\njmp *%r11\n\
             .globl {prefix}{name}\n.type {prefix}{name}, @gnu_indirect_function\n\
             {prefix}{name}: mov ${operation}, %edi\nlea .Lforward_{operation}(%rip), %rsi\njmp belljar_pick",
            8 * operation
        );
    }
    let _ = write!(
        text,
        ".section .data.rel.ro,\"aw\",@progbits\n.balign 8\n.weak dl_iterate_phdr\n.weak environ\n\
         .globl belljar_iterate\n.hidden belljar_iterate\nbelljar_iterate: .quad dl_iterate_phdr\n\
         .globl belljar_environment\n.hidden belljar_environment\nbelljar_environment: .quad environ\n\
         .bss\n.balign 8\n.globl belljar_next\n.hidden belljar_next\nbelljar_next: .zero {}\n.text\n",
        8 * abi::OPERATIONS
    );
    text
}

/// The common part of the resolvers and of first calls: r11 is the operation; all other registers are the caller's, and
/// are restored before the call continues.
const COMMON: &str = "\
.text
belljar_pick:
 lea .Lresolve_0(%rip), %rdx
 lea belljar_returned(%rip), %rcx
 jmp {pick}
.type belljar_resolve, @function
belljar_resolve:
 .cfi_startproc
 push %rbp
 .cfi_def_cfa_offset 16
 .cfi_offset %rbp, -16
 mov %rsp, %rbp
 .cfi_def_cfa_register %rbp
 and $-16, %rsp
 sub $192, %rsp
 movaps %xmm0, (%rsp)
 movaps %xmm1, 16(%rsp)
 movaps %xmm2, 32(%rsp)
 movaps %xmm3, 48(%rsp)
 movaps %xmm4, 64(%rsp)
 movaps %xmm5, 80(%rsp)
 movaps %xmm6, 96(%rsp)
 movaps %xmm7, 112(%rsp)
 mov %rax, 128(%rsp)
 mov %rdi, 136(%rsp)
 mov %rsi, 144(%rsp)
 mov %rdx, 152(%rsp)
 mov %rcx, 160(%rsp)
 mov %r8, 168(%rsp)
 mov %r9, 176(%rsp)
 mov %r10, 184(%rsp)
 mov %r11d, %edi
 call {resolve}
 mov %rax, %r11
 movaps (%rsp), %xmm0
 movaps 16(%rsp), %xmm1
 movaps 32(%rsp), %xmm2
 movaps 48(%rsp), %xmm3
 movaps 64(%rsp), %xmm4
 movaps 80(%rsp), %xmm5
 movaps 96(%rsp), %xmm6
 movaps 112(%rsp), %xmm7
 mov 128(%rsp), %rax
 mov 136(%rsp), %rdi
 mov 144(%rsp), %rsi
 mov 152(%rsp), %rdx
 mov 160(%rsp), %rcx
 mov 168(%rsp), %r8
 mov 176(%rsp), %r9
 mov 184(%rsp), %r10
 leave
 .cfi_def_cfa %rsp, 8
 jmp *%r11
 .cfi_endproc
";
