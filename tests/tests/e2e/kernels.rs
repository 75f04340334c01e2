//! Kernels and programs of other kinds: other distributions' kernels, 32-bit programs,
//! kernels given to `belljar boot`.
//!
//! Debian 12's standard kernel (6.1) and Debian 13's (6.12) boot unmodified, with two nodes each; other groups boot Debian 12's cloud
//! kernel. A static 32-bit program runs under the 64-bit kernel, a shell is typed to on the serial console, and a multiboot kernel boots.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belljar_tests::{Dir, Scenario, root};

/// The folder of a recipe's image; `None`, with a message, if its packages are not available.
fn image(dir: &Dir, recipe: &str) -> Option<PathBuf> {
    built(dir, &root().join(format!("images/{recipe}.toml")))
}

/// The same for the recipe in a file.
fn built(dir: &Dir, file: &Path) -> Option<PathBuf> {
    let (stdout, stderr, code) =
        dir.call(&["image", "build", "--keep-lock", file.to_str().unwrap()]);
    if code == Some(0) {
        return Some(PathBuf::from(stdout.trim()));
    }
    let unreachable = stderr.contains("apt-get failed") || stderr.contains("mmdebstrap failed");
    assert!(unreachable, "{stderr}");
    let recipe = file.display();
    eprintln!("SKIPPED: the packages of {recipe} are not to be had: {stderr}");
    None
}

fn boots(recipe: &str, release: &str) {
    let Some(dir) = Dir::new() else { return };
    if image(&dir, recipe).is_none() {
        return;
    }
    let command = "uname -r; bash --version | head -1; busybox true; belljar-rsh node1 uname -n";
    let run = dir
        .run(&Scenario::new(2, command).on(recipe), "out", &[])
        .success();
    let console = run.console(0);
    assert!(console.contains(&format!("\n{release}")), "{console}");
    assert!(
        console.contains("\nGNU bash") && console.contains("\nnode1\n"),
        "{console}"
    );
    let warnings = run.summary()["warnings"].clone();
    assert_eq!(warnings.as_array().map(Vec::len), Some(0), "{warnings}");
}

#[test]
fn the_standard_kernel_of_debian_12_boots() {
    boots("bookworm-standard", "6.1.");
}

#[test]
fn the_kernel_of_debian_13_boots() {
    boots("trixie", "6.12.");
}

/// A recipe that extends a built-in one, with a source tree whose program needs a library of
/// its own.
const OWN_RECIPE: &str = "name = \"own\"\nextends = \"bookworm-standard\"\n\
    [environment]\nANSWER = \"42\"\n\
    [userland]\npackages = [\"openssh-client\", \"openssh-server\"]\n\
    files = [\"/usr/bin/scp\", \"/usr/bin/ssh\", \"/usr/sbin/sshd\"]\n\
    [builder]\npackages = [\"make\"]\n\
    [[include]]\nsource = \"data\"\npath = \"/opt/data\"\ninto = \"root\"\n\
    [[source]]\npath = \"answer\"\nscript = \"make && make install DESTDIR=$OUT\"\n";

#[test]
fn a_recipe_of_one_s_own_extends_a_built_in_one() {
    let Some(dir) = Dir::new() else { return };
    for folder in ["answer", "data/deep"] {
        std::fs::create_dir_all(dir.path(folder)).unwrap();
    }
    dir.write("data/deep/file", "included\n");
    let library = "#include <stdlib.h>\nint answer(void) { return atoi(getenv(\"ANSWER\")); }\n";
    dir.write("answer/library.c", library);
    let program = "#include <stdio.h>\nint answer(void);\n\
        int main(void) { printf(\"answer %d\\n\", answer()); return 0; }\n";
    dir.write("answer/program.c", program);
    let makefile = "all:\n\tgcc -shared -fPIC -Wl,-soname,libanswer.so.1 -o libanswer.so.1 library.c\n\
        \tgcc -o answer program.c libanswer.so.1\n\
        install:\n\tmkdir -p $(DESTDIR)/usr/local/bin $(DESTDIR)/usr/local/lib\n\
        \tcp answer $(DESTDIR)/usr/local/bin\n\tcp libanswer.so.1 $(DESTDIR)/usr/local/lib\n";
    dir.write("answer/Makefile", makefile);
    let recipe = dir.write("own.toml", OWN_RECIPE);
    if built(&dir, &recipe).is_none() {
        return;
    }
    let set = format!("image.recipe={recipe:?}");
    let scenario = Scenario::new(1, "answer; cat /opt/data/deep/file");
    let run = dir.run(&scenario, "out", &["--set", &set]).success();
    let console = run.console(0);
    assert!(
        console.contains("answer 42\n") && console.contains("included\n"),
        "{console}"
    );
    assert!(
        !recipe.with_extension("lock").exists(),
        "tests write no locks"
    );
    let between = "set -e\nssh node1 'cat /proc/sys/kernel/hostname; echo $PATH'\necho sent > here\n\
        scp -q here node1:there\nssh root@node1 cat there";
    let run = dir.run(&Scenario::new(2, between), "shell", &["--set", &set]);
    let path = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
    let expected = format!("node1\n{path}\nsent\n");
    assert_eq!(
        run.success().text("stdout"),
        expected,
        "the image's own sshd answers"
    );
}

/// Compiles a static 32-bit program; `None`, with a message, without a compiler for it.
fn program_of_32_bits(dir: &Dir) -> Option<PathBuf> {
    let source = dir.write(
        "narrow.c",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/wait.h>\n\
         #include <unistd.h>\n\
         int main(int argc, char **argv) {\n\
         unsigned hash = 2166136261u;\n\
         for (unsigned i = 0; i < 300000; i++) hash = (hash ^ (i & 0xff)) * 16777619u;\n\
         double sum = 0; for (int i = 1; i < 1000; i++) sum += 1.0 / i;\n\
         long long product = hash; product *= argc + 40;\n\
         pid_t child = fork();\n\
         if (child == 0) { char *p = malloc(1 << 20); memset(p, 7, 1 << 20); _exit(p[12345]); }\n\
         int status; waitpid(child, &status, 0);\n\
         printf(\"bits=%d hash=%08x sum=%.6f product=%lld child=%d\\n\", (int)(8 * sizeof(void *)),\n\
         hash, sum, product, WEXITSTATUS(status));\n\
         return 0; }\n",
    );
    let program = dir.path("narrow");
    let made = Command::new("gcc")
        .args(["-m32", "-static", "-O2", "-o"])
        .arg(&program)
        .arg(&source)
        .stderr(Stdio::null())
        .status();
    if made.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    eprintln!("SKIPPED: gcc cannot make 32-bit programs; install gcc-multilib");
    None
}

#[test]
fn a_32_bit_program_runs_under_the_64_bit_kernel() {
    let Some(dir) = Dir::new() else { return };
    let Some(program) = program_of_32_bits(&dir) else {
        return;
    };
    let native = Command::new(&program).output();
    let scenario =
        Scenario::new(1, "./narrow").with(&format!("[workload.files]\nnarrow = {program:?}"));
    let console = dir.run(&scenario, "out", &[]).success().console(0);
    assert!(console.contains("\nbits=32 hash="), "{console}");
    // Not every host runs such programs itself.
    if let Some(native) = native.ok().filter(|output| output.status.success()) {
        let expected = String::from_utf8_lossy(&native.stdout).into_owned();
        assert!(
            console.contains(&expected),
            "{expected} is not in {console}"
        );
    }
}

fn arguments([kernel, initrd]: &[PathBuf; 2]) -> Vec<&str> {
    vec![
        "boot",
        "--limit",
        "30 s",
        "--kernel",
        kernel.to_str().expect("a plain path"),
        "--initrd",
        initrd.to_str().expect("a plain path"),
    ]
}

/// A distribution's kernel with an initramfs of busybox alone, and typed input.
#[test]
fn a_shell_on_the_serial_console_answers() {
    let Some(dir) = Dir::new() else { return };
    let Some(image) = image(&dir, "bookworm-mpich") else {
        return;
    };
    let names = [image.join("vmlinuz"), image.join("initrd.cpio")];
    let mut command = dir.command(&arguments(&names));
    command.args(["--append", "rdinit=/bin/busybox -- sh"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("belljar starts");
    let mut output = child.stdout.take().expect("a pipe");
    let mut input = child.stdin.take().expect("a pipe");
    let mut console = Vec::new();
    let mut byte = [0];
    let mut typed = false;
    while output.read(&mut byte).expect("the pipe works") == 1 {
        console.push(byte[0]);
        if !typed && console.ends_with(b"# ") {
            typed = true;
            input
                .write_all(b"/bin/busybox expr 6 \\* 7\n/bin/busybox poweroff -f\n")
                .expect("the pipe works");
        }
    }
    let status = child.wait().expect("belljar ends");
    let console = String::from_utf8_lossy(&console).into_owned();
    assert!(typed && console.contains("\n42\r\n"), "{console}");
    assert!(status.success(), "{console}");
}

#[test]
fn a_boot_without_input_repeats_to_the_cycle() {
    let Some(dir) = Dir::new() else { return };
    let Some(image) = image(&dir, "bookworm-mpich") else {
        return;
    };
    let names = [image.join("vmlinuz"), image.join("initrd.cpio")];
    let mut arguments = arguments(&names);
    arguments.push("--no-input");
    let first = dir.call(&arguments);
    let second = dir.call(&arguments);
    assert_eq!(first, second);
    assert!(first.0.contains("there is no disk /dev/vda"), "{}", first.0);
    assert_eq!(first.2, Some(0), "the init switches off");
    assert!(first.1.contains("instructions"), "{}", first.1);
}

#[test]
fn a_multiboot_kernel_ends_through_the_exit_device() {
    let Some(dir) = Dir::new() else { return };
    // A header, then: mov al, 'B'; mov dx, 0x3f8; out dx, al; mov eax, 21; out 0xf4, eax.
    let mut code: Vec<u8> = [0x1bad_b002u32, 0x1_0000, 0xe451_4ffe]
        .into_iter()
        .chain([0x20_0000, 0x20_0000, 0, 0, 0x20_0020])
        .flat_map(u32::to_le_bytes)
        .collect();
    code.extend([0xb0, b'B', 0x66, 0xba, 0xf8, 0x03, 0xee]);
    code.extend([0xb8, 21, 0, 0, 0, 0xe7, 0xf4, 0xf4]);
    let file = dir.path("kernel");
    std::fs::write(&file, code).unwrap();
    let kernel = file.to_str().unwrap();
    let (stdout, stderr, code) =
        dir.call(&["boot", "--kernel", kernel, "--exit-device", "--no-input"]);
    assert_eq!((stdout.as_str(), code), ("B", Some(43)), "{stderr}");
    // Without the device the same guest halts, and no event can wake it.
    let (_, stderr, code) = dir.call(&["boot", "--kernel", kernel, "--no-input"]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("halted with interrupts off"), "{stderr}");
}
