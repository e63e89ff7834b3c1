//! Reads `/proc/cpuinfo`, and names arm64 CPUs, for which it has only the numbers in MIDR_EL1: the CPU's maker and the
//! part (Linux `arch/arm64/include/asm/cputype.h`).

const NAMES: [(u32, u32, &str); 21] = [
    (0x41, 0xd03, "Arm Cortex-A53"),
    (0x41, 0xd05, "Arm Cortex-A55"),
    (0x41, 0xd07, "Arm Cortex-A57"),
    (0x41, 0xd08, "Arm Cortex-A72"),
    (0x41, 0xd09, "Arm Cortex-A73"),
    (0x41, 0xd0a, "Arm Cortex-A75"),
    (0x41, 0xd0b, "Arm Cortex-A76"),
    (0x41, 0xd0c, "Arm Neoverse-N1"),
    (0x41, 0xd0d, "Arm Cortex-A77"),
    (0x41, 0xd40, "Arm Neoverse-V1"),
    (0x41, 0xd41, "Arm Cortex-A78"),
    (0x41, 0xd44, "Arm Cortex-X1"),
    (0x41, 0xd46, "Arm Cortex-A510"),
    (0x41, 0xd47, "Arm Cortex-A710"),
    (0x41, 0xd48, "Arm Cortex-X2"),
    (0x41, 0xd49, "Arm Neoverse-N2"),
    (0x41, 0xd4f, "Arm Neoverse-V2"),
    (0x43, 0x0af, "Cavium ThunderX2"),
    (0x48, 0xd01, "HiSilicon Kunpeng-920"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1A"),
];

/// The value of the first line `name : value` in the text of `/proc/cpuinfo`.
pub(super) fn field(cpuinfo: &str, name: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The name of the first CPU in the text of `/proc/cpuinfo`, or its numbers if the CPU is not known here; `None` if the
/// text has no numbers.
pub(super) fn arm64_name(cpuinfo: &str) -> Option<String> {
    let number = |key| u32::from_str_radix(field(cpuinfo, key)?.strip_prefix("0x")?, 16).ok();
    let (maker, part) = (number("CPU implementer")?, number("CPU part")?);
    let (variant, revision) = (
        number("CPU variant").unwrap_or_default(),
        field(cpuinfo, "CPU revision").unwrap_or_else(|| "0".to_owned()),
    );
    let known = NAMES
        .iter()
        .find(|known| (known.0, known.1) == (maker, part));
    let name = known.map_or_else(
        || format!("arm64 CPU, implementer {maker:#x}, part {part:#x}"),
        |(_, _, name)| (*name).to_owned(),
    );
    Some(format!("{name} r{variant}p{revision}"))
}

#[cfg(test)]
mod tests {
    use super::{arm64_name, field};

    const CPUINFO: &str = "processor\t: 0\nBogoMIPS\t: 125.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
                           CPU variant\t: 0x4\nCPU part\t: 0xd0b\nCPU revision\t: 1\n";

    #[test]
    fn fields_of_cpuinfo_are_found_by_their_whole_name() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: A: B\n\nmodel name\t: C\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("A: B"));
        assert_eq!(field(cpuinfo, "name"), None);
    }

    #[test]
    fn a_cpu_has_the_name_of_its_numbers() {
        assert_eq!(arm64_name(CPUINFO).as_deref(), Some("Arm Cortex-A76 r4p1"));
    }

    #[test]
    fn a_cpu_without_a_name_here_keeps_its_numbers() {
        let other = CPUINFO.replace("0xd0b", "0xfff");
        let named = arm64_name(&other);
        assert_eq!(
            named.as_deref(),
            Some("arm64 CPU, implementer 0x41, part 0xfff r4p1")
        );
        assert_eq!(arm64_name("model name\t: x\n"), None);
    }
}
