//! Compiles the preloaded library: a freestanding shared object of its own, which
//! cargo's profiles (and their unwinding) must not touch.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_abi as abi;

fn main() {
    println!("cargo::rerun-if-changed=preload/preload.rs");
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    write(&out.join("constants.rs"), &constants());
    write(&out.join("functions.s"), &functions());
    let source = fs::read_to_string("preload/preload.rs").expect("the library's source is here");
    write(&out.join("preload.rs"), &source);
    compile(&out);
}

fn write(path: &Path, text: &str) {
    fs::write(path, text)
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// An object file by rustc, linked by the C compiler's driver: rustc's own link
/// step would export nothing that the assembly defines.
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
        "{name} could not build the preloaded library"
    );
}

fn constants() -> String {
    let operation =
        |name| abi::operation(name).expect("the table has MPI_Init and MPI_Init_thread");
    format!(
        "const STUB_BASE: u64 = {:#x};\nconst STUB_LENGTH: u64 = {:#x};\nconst RETURN_ADDRESS: u64 = {:#x};\n\
         const FACT_ADDRESS: u64 = {:#x};\nconst DETECT_LEAF: u32 = {:#x};\nconst DETECT_INT3: u32 = {:#x};\n\
         const MAGIC_CPUID: [u8; 2] = {:?};\nconst MAGIC_INT3: [u8; 2] = {:?};\n\
         const FIRST_STUB: u64 = {:#x};\nconst STUB_SIZE: u64 = {};\nconst STUB_JUMP: u64 = {};\nconst TABLE_OFFSET: u64 = {:#x};\n\
         const OP_RETURN: u32 = {:#x};\nconst FACT_LEAF: u32 = {:#x};\nconst FACT_PROCESS: u64 = {};\n\
         const FACT_OBJECTS: u64 = {};\nconst FACT_ENVIRONMENT: u64 = {};\nconst MPICH: u64 = {};\nconst OPEN_MPI: u64 = {};\n\
         const FUNCTION_COUNT: usize = {};\nconst OBJECT_COUNT: usize = {};\nconst INIT: usize = {};\n\
         const INIT_THREAD: usize = {};\n\
         const RANK_VARIABLES: [&[u8]; 3] = [b\"PMI_RANK\", b\"OMPI_COMM_WORLD_RANK\", b\"PMIX_RANK\"];\n",
        abi::STUB_BASE,
        abi::STUB_LENGTH,
        abi::RETURN_ADDRESS,
        abi::FACT_ADDRESS,
        abi::DETECT_LEAF,
        abi::DETECT_INT3,
        abi::MAGIC_CPUID,
        abi::MAGIC_INT3,
        abi::FIRST_STUB,
        abi::STUB_SIZE,
        abi::STUB_JUMP,
        abi::TABLE_OFFSET,
        abi::OP_RETURN,
        abi::FACT_LEAF,
        abi::fact::PROCESS,
        abi::fact::OPEN_MPI_OBJECTS,
        abi::fact::ENVIRONMENT,
        abi::IMPLEMENTATION_MPICH,
        abi::IMPLEMENTATION_OPEN_MPI,
        abi::FUNCTIONS.len(),
        abi::OPEN_MPI_OBJECTS.len(),
        operation("MPI_Init"),
        operation("MPI_Init_thread"),
    )
}

/// Assembly for every function: an exported indirect function, whose resolver
/// answers with the stub under Belljar and with a plain forward elsewhere.
fn functions() -> String {
    let mut text = String::from(PROLOGUE);
    text.push_str(&pick());
    for (index, function) in abi::FUNCTIONS.iter().enumerate() {
        let name = function.name;
        let stub = abi::FIRST_STUB + index as u64 * abi::STUB_SIZE;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            ".weak P{name}\n\
             .Lforward_{index}: jmp *P{name}@GOTPCREL(%rip)\n\
             .globl {name}\n.type {name}, @gnu_indirect_function\n\
             {name}: movabs ${stub:#x}, %rdi\nlea .Lforward_{index}(%rip), %rsi\njmp belljar_pick\n"
        );
    }
    text.push_str(".section .data.rel.ro,\"aw\",@progbits\n.balign 8\n.globl belljar_real\n.hidden belljar_real\nbelljar_real:\n");
    for function in abi::FUNCTIONS {
        let _ = writeln!(text, ".quad P{}", function.name);
    }
    text.push_str(".globl belljar_objects\n.hidden belljar_objects\nbelljar_objects:\n");
    for (object, _) in abi::OPEN_MPI_OBJECTS {
        let _ = writeln!(text, ".weak {object}\n.quad {object}");
    }
    text.push_str(".data\n.balign 8\n.globl belljar_state\n.hidden belljar_state\nbelljar_state: .quad 0\n.text\n");
    text
}

const PROLOGUE: &str = ".text\n";

/// The resolvers' common part: rdi is the stub's address, rsi the forward's. It
/// runs before this library is relocated, so it must not use anything that is. On
/// its first call, which may be the constructor's, it asks CPUID and maps the stub range (mmap with
/// MAP_PRIVATE, MAP_ANONYMOUS, MAP_FIXED_NOREPLACE and MAP_POPULATE).
fn pick() -> String {
    let word =
        |at: usize| u32::from_le_bytes(abi::SIGNATURE[at..at + 4].try_into().expect("four bytes"));
    format!(
        ".globl belljar_pick\n.hidden belljar_pick\n.type belljar_pick, @function\nbelljar_pick:\n\
         mov belljar_state(%rip), %rax\ntest %rax, %rax\njnz 3f\n\
         push %rbx\npush %rdi\npush %rsi\n\
         mov ${leaf:#x}, %eax\nxor %ecx, %ecx\ncpuid\n\
         mov $2, %r10d\n\
         cmp ${first:#x}, %ebx\njne 2f\ncmp ${second:#x}, %ecx\njne 2f\ncmp ${third:#x}, %edx\njne 2f\n\
         mov $9, %eax\nmovabs ${base:#x}, %rdi\nmov ${length:#x}, %esi\nmov $3, %edx\n\
         mov $0x108022, %r10d\nmov $-1, %r8\nxor %r9d, %r9d\nsyscall\n\
         mov $2, %r10d\nmovabs ${base:#x}, %rdi\ncmp %rdi, %rax\njne 2f\nmov $1, %r10d\n\
         2:\nmov %r10, belljar_state(%rip)\npop %rsi\npop %rdi\npop %rbx\nmov %r10, %rax\n\
         3:\ncmp $1, %rax\nmov %rsi, %rax\ncmove %rdi, %rax\nret\n",
        leaf = abi::DETECT_LEAF,
        first = word(0),
        second = word(4),
        third = word(8),
        base = abi::STUB_BASE,
        length = abi::STUB_LENGTH,
    )
}
