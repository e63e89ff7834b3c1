//! The exits of L1's guests by their reasons, as a line.

/// The exit codes of AMD's SVM (APM volume 2, appendix C) that guests with guests have often.
const NAMES: [(u32, &str); 20] = [
    (0x00, "read cr0"),
    (0x10, "write cr0"),
    (0x5c, "#AC"),
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x64, "vintr"),
    (0x6e, "rdtsc"),
    (0x72, "cpuid"),
    (0x74, "iret"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x80, "vmrun"),
    (0x81, "vmmcall"),
    (0x82, "vmload"),
    (0x83, "vmsave"),
    (0x84, "stgi"),
    (0x8d, "xsetbv"),
    (0x400, "page fault"),
];
/// What a CPU with virtual VMLOAD and VMSAVE (VLS) does without an exit.
const VLS: [u32; 2] = [0x82, 0x83];

/// The line; a star marks what a CPU with VLS does without an exit.
pub(super) fn text(exits: &[(u32, u64)]) -> String {
    let all: u64 = exits.iter().map(|(_, count)| count).sum();
    let saved = exits.iter().filter(|(code, _)| VLS.contains(code));
    let saved: u64 = saved.map(|(_, count)| count).sum();
    let one = |(code, count): &(u32, u64)| {
        let name = NAMES.iter().find(|(other, _)| other == code);
        let name = name.map_or_else(|| format!("{code:#x}"), |(_, name)| (*name).to_owned());
        let star = if VLS.contains(code) { "*" } else { "" };
        format!("{name}{star} {count}")
    };
    let each: Vec<String> = exits.iter().map(one).collect();
    format!(
        "{all} exits of L1's guests while the program ran, {saved} of them (*) not on a CPU with VLS: {}",
        each.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_that_a_cpu_with_vls_does_not_have_are_marked() {
        assert_eq!(
            text(&[(0x82, 400), (0x80, 200), (0x999, 1)]),
            "601 exits of L1's guests while the program ran, 400 of them (*) not on a CPU with VLS: \
             vmload* 400, vmrun 200, 0x999 1"
        );
    }
}
