//! Unified kernel images: programs for EFI that have a kernel, its initrd and its command line as sections (the UAPI Group's
//! specification 5). They are recognized so that an error can say how to take them apart.

/// The sections that `vmbell run` can take, each with the name of the file to make of it.
const KERNEL: (&str, &str) = (".linux", "vmlinuz");
const INITRD: (&str, &str) = (".initrd", "initrd.img");
const COMMAND_LINE: (&str, &str) = (".cmdline", "cmdline");

/// Offsets and sizes in a PE file: where its header is, and in that header and the headers of sections.
const HEADER_AT: usize = 0x3c;
const SECTIONS: usize = 6;
const OPTIONAL_LEN: usize = 20;
const HEADER_LEN: usize = 24;
const SECTION_LEN: usize = 40;
const NAME_LEN: usize = 8;

/// Returns how to boot what is in the file: shell commands that take it apart, and the options for the resulting files.
/// `None` if the first bytes are not those of a unified kernel image.
pub(super) fn advice(image: &str, file: &[u8]) -> Option<String> {
    let names = sections(file)?;
    let has = |(section, _): &(&str, &str)| names.contains(&section.as_bytes());
    if !has(&KERNEL) {
        return None;
    }
    let parts: Vec<_> = [KERNEL, INITRD, COMMAND_LINE]
        .into_iter()
        .filter(has)
        .collect();
    let extract =
        |(section, name): &(&str, &str)| format!("objcopy -O binary -j {section} '{image}' {name}");
    let commands: Vec<_> = parts.iter().map(extract).collect();
    let mut options = String::new();
    if parts.contains(&INITRD) {
        options += &format!(" --initrd {}", INITRD.1);
    }
    if parts.contains(&COMMAND_LINE) {
        options += &format!(r#" --append "$(tr -d '\0' <{})""#, COMMAND_LINE.1);
    }
    let commands = commands.join(" && ");
    Some(format!(
        "`{commands}`, and `vmbell run {}{options}`",
        KERNEL.1
    ))
}

/// Returns the names of a PE file's sections, as far as `file` contains them.
fn sections<'f>(file: &'f [u8]) -> Option<Vec<&'f [u8]>> {
    let header = u32::from_le_bytes(*file.get(HEADER_AT..)?.first_chunk()?);
    let header = file.get(usize::try_from(header).ok()?..)?;
    if !file.starts_with(b"MZ") || !header.starts_with(b"PE\0\0") {
        return None;
    }
    let half = |at: usize| Some(u16::from_le_bytes(*header.get(at..)?.first_chunk()?));
    let (count, optional) = (half(SECTIONS)?, half(OPTIONAL_LEN)?);
    let table = header.get(HEADER_LEN + usize::from(optional)..)?;
    let sections = table.chunks_exact(SECTION_LEN).take(count.into());
    let name = |section: &'f [u8]| {
        let name = &section[..NAME_LEN];
        let end = name.iter().position(|byte| *byte == 0);
        &name[..end.unwrap_or(NAME_LEN)]
    };
    Some(sections.map(name).collect())
}
