//! Guests that try to break out, or to stop the clock: each ends only its own run, with a
//! message.

use belljar_tests::Dir;

/// Load address of kernels, and address of their code.
const LOAD: u32 = 0x20_0000;
const ENTRY: u32 = LOAD + 0x20;
/// The second virtio device, the console.
const CONSOLE: u32 = 0xd000_1000;

/// A multiboot kernel of 32-bit code.
fn kernel(code: &[u8]) -> Vec<u8> {
    let header = [
        0x1bad_b002u32,
        0x1_0000,
        0xe451_4ffe,
        LOAD,
        LOAD,
        0,
        0,
        ENTRY,
    ];
    let header = header.into_iter().flat_map(u32::to_le_bytes);
    header.chain(code.iter().copied()).collect()
}

/// `mov dword [address], value`.
fn store(address: u32, value: u32) -> Vec<u8> {
    [
        &[0xc7, 0x05][..],
        &address.to_le_bytes(),
        &value.to_le_bytes(),
    ]
    .concat()
}

/// Standard error and the exit code of a guest that runs `code`, for five virtual
/// milliseconds at most.
fn boot(code: &[u8]) -> Option<(String, Option<i32>)> {
    let dir = Dir::new()?;
    let file = dir.path("kernel");
    std::fs::write(&file, kernel(code)).expect("the temporary folder is writable");
    let (_, stderr, code) = dir.call(&[
        "boot",
        "--kernel",
        file.to_str().expect("a plain path"),
        "--exit-device",
        "--no-input",
        "--limit",
        "5 ms",
    ]);
    Some((stderr, code))
}

/// The code that writes to the exit device: Belljar ends with 43.
const WELL: [u8; 7] = [0xb8, 21, 0, 0, 0, 0xe7, 0xf4];

#[test]
fn a_guest_without_handlers_shuts_its_processor_down() {
    // lidt [0x300000], which contains zeros; int3
    let Some((error, code)) = boot(&[0x0f, 0x01, 0x1d, 0, 0, 0x30, 0, 0xcc]) else {
        return;
    };
    assert_eq!(code, Some(1), "{error}");
    let told = "shut down: triple fault, after exception 13 at rip ";
    assert!(error.contains(told), "{error}");
}

#[test]
fn endless_exceptions_come_to_the_limit() {
    const TABLE: u32 = 0x30_0000;
    const HANDLER: u32 = ENTRY + 0x80;
    // mov eax, cs; shl eax, 16; mov ax, HANDLER; mov [gate of #UD], eax
    let mut code = vec![0x8c, 0xc8, 0xc1, 0xe0, 16, 0x66, 0xb8];
    code.extend((HANDLER as u16).to_le_bytes());
    code.push(0xa3);
    code.extend((TABLE + 6 * 8).to_le_bytes());
    code.extend(store(TABLE + 6 * 8 + 4, HANDLER & 0xffff_0000 | 0x8e00));
    code.extend(store(TABLE + 0x800, 0x7ff | TABLE << 16));
    code.extend(store(TABLE + 0x804, TABLE >> 16));
    // lidt [TABLE + 0x800]; ud2
    code.extend([0x0f, 0x01, 0x1d]);
    code.extend((TABLE + 0x800).to_le_bytes());
    code.extend([0x0f, 0x0b]);
    code.resize((HANDLER - ENTRY) as usize, 0xf4);
    // mov esp, 0x280000; ud2
    code.extend([0xbc, 0, 0, 0x28, 0, 0x0f, 0x0b]);
    let Some((error, code)) = boot(&code) else {
        return;
    };
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("the limit of 5.000 ms"), "{error}");
}

/// Code that starts the console with one queue, whose descriptors and rings are at `parts`,
/// and above 4 GiB at `high`, and notifies the device.
fn start_console(parts: [u32; 3], high: u32) -> Vec<u8> {
    let [descriptors, available, used] = parts;
    [
        (0x70, 1),
        (0x70, 3),
        (0x24, 1),
        (0x20, 1),
        (0x70, 0xb),
        (0x30, 1),
        (0x38, 4),
        (0x80, descriptors),
        (0x84, high),
        (0x90, available),
        (0x94, high),
        (0xa0, used),
        (0xa4, high),
        (0x44, 1),
        (0x70, 0xf),
        (0x50, 1),
    ]
    .into_iter()
    .flat_map(|(register, value)| store(CONSOLE + register, value))
    .collect()
}

#[test]
fn a_queue_out_of_memory_stops_its_device_alone() {
    let mut code = Vec::new();
    // Its parts are far outside of RAM.
    code.extend(start_console([0xffff_f000; 3], 0xff));
    code.extend(WELL);
    let Some((error, code)) = boot(&code) else {
        return;
    };
    assert_eq!(code, Some(43), "{error}");
    assert!(
        error.contains("slot 1 waits for a reset") && error.contains("RAM"),
        "{error}"
    );
}

#[test]
fn a_chain_that_goes_round_stops_its_device_alone() {
    const QUEUE: u32 = 0x30_0000;
    let mut code = Vec::new();
    // Descriptor 0 of four bytes links to itself; it is made available once.
    for (offset, value) in [
        (0, QUEUE + 0x3000),
        (8, 4),
        (12, 1),
        (0x1000, 1 << 16),
        (0x1004, 0),
    ] {
        code.extend(store(QUEUE + offset, value));
    }
    code.extend(start_console([QUEUE, QUEUE + 0x1000, QUEUE + 0x2000], 0));
    code.extend(WELL);
    let Some((error, code)) = boot(&code) else {
        return;
    };
    assert_eq!(code, Some(43), "{error}");
    assert!(error.contains("slot 1 waits for a reset"), "{error}");
}

#[test]
fn a_write_over_every_device_and_all_of_low_memory_ends_the_guest_alone() {
    // mov edi, 0xd0000000; mov ecx, 0x10000; mov eax, -1; rep stosd; then all of memory
    // from 4 KiB on, up to its own code.
    let code = [
        0xbf, 0, 0, 0, 0xd0, 0xb9, 0, 0x20, 0, 0, 0xb8, 0xff, 0xff, 0xff, 0xff, 0xf3, 0xab, 0xbf,
        0, 0x10, 0, 0, 0xb9, 0, 0, 0, 0x10, 0xf3, 0xab,
    ];
    let Some((error, code)) = boot(&code) else {
        return;
    };
    assert_eq!(code, Some(1), "{error}");
    assert_eq!(error.matches("error:").count(), 1, "{error}");
}

#[test]
fn tables_that_go_round_end_the_guest_alone() {
    const TABLES: u32 = 0x30_0000;
    // Every entry of the page directory, which is its own table, points to it; then paging.
    let mut code = vec![0xbf];
    code.extend(TABLES.to_le_bytes());
    code.extend([0xb9, 0, 4, 0, 0, 0xb8]);
    code.extend((TABLES | 7).to_le_bytes());
    // rep stosd; mov eax, TABLES; mov cr3, eax; mov eax, cr0; or eax, 1 << 31; mov cr0, eax
    code.extend([0xf3, 0xab, 0xb8]);
    code.extend(TABLES.to_le_bytes());
    code.extend([0x0f, 0x22, 0xd8, 0x0f, 0x20, 0xc0]);
    code.extend([0x0d, 0, 0, 0, 0x80, 0x0f, 0x22, 0xc0]);
    let Some((error, code)) = boot(&code) else {
        return;
    };
    assert_eq!(code, Some(1), "{error}");
    assert_eq!(error.matches("error:").count(), 1, "{error}");
}
