//! The stub's finished executable: its symbols and its code.

use stub::ELF;

fn number(offset: usize, len: usize) -> u64 {
    ELF[offset..offset + len]
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// Returns the program headers as type, flags, file offset, address, size in the file.
pub fn segments() -> Vec<(u64, u64, usize, u64, usize)> {
    let (table, size, entries) = (
        at(number(0x20, 8)),
        at(number(0x36, 2)),
        at(number(0x38, 2)),
    );
    let entry = |index: usize| {
        let entry = table + index * size;
        let field = |offset, len| number(entry + offset, len);
        (
            field(0, 4),
            field(4, 4),
            at(field(8, 8)),
            field(16, 8),
            at(field(32, 8)),
        )
    };
    (0..entries).map(entry).collect()
}

/// Returns the section headers as type, file offset, size, link.
pub fn sections() -> Vec<(u64, usize, usize, usize)> {
    let (table, size, entries) = (
        at(number(0x28, 8)),
        at(number(0x3a, 2)),
        at(number(0x3c, 2)),
    );
    let entry = |index: usize| {
        let entry = table + index * size;
        let field = |offset, len| number(entry + offset, len);
        (
            field(4, 4),
            at(field(24, 8)),
            at(field(32, 8)),
            at(field(40, 4)),
        )
    };
    (0..entries).map(entry).collect()
}

/// The address of a symbol.
pub fn symbol(name: &str) -> u64 {
    let sections = sections();
    let symbols = sections
        .iter()
        .find(|(kind, ..)| *kind == 2)
        .expect("a symbol table");
    let (_, names, ..) = sections[symbols.3];
    for entry in (symbols.1..symbols.1 + symbols.2).step_by(24) {
        let text = &ELF[names + at(number(entry, 4))..];
        if text.starts_with(name.as_bytes()) && text[name.len()] == 0 {
            return number(entry + 8, 8);
        }
    }
    panic!("the stub has no symbol {name}")
}

/// The code and its address.
pub fn code() -> (u64, &'static [u8]) {
    let executable: Vec<_> = segments()
        .into_iter()
        .filter(|(kind, flags, ..)| *kind == 1 && flags & 1 != 0)
        .collect();
    let [(_, _, offset, address, size)] = executable[..] else {
        panic!("{} executable segments", executable.len())
    };
    (address, &ELF[offset..offset + size])
}

/// The addresses of all `syscall` instructions.
pub fn syscalls() -> Vec<u64> {
    let (address, code) = code();
    iced_x86::Decoder::with_ip(64, code, address, 0)
        .into_iter()
        .filter(|instruction| instruction.code() == iced_x86::Code::Syscall)
        .map(|instruction| instruction.ip())
        .collect()
}
