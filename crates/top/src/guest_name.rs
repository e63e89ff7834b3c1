//! The name of a VM in the arguments of its VMM.
//!
//! QEMU, like StratoVirt, has `-name` with properties in any order: `debug-threads=on,guest=web`. Firecracker has
//! `--id`, crosvm and kvmtool have `--name`; Cloud Hypervisor does not name its VM. The guest kernel's command line is
//! also an argument of the VMM, and may look like any of these options.

/// VMMs with QEMU's options.
const LIKE_QEMU: [&str; 2] = ["qemu", "stratovirt"];

const NAMES: [&str; 3] = ["-name", "--name", "--id"];

/// Options of any of these VMMs whose argument is for the guest's kernel.
const FOR_KERNEL: [&str; 5] = ["-append", "--append", "--cmdline", "--params", "-p"];

/// Returns the VM's name, if it was given one.
pub(crate) fn of(vmm: &str, arguments: &[&str]) -> Option<String> {
    let mut names = Vec::new();
    let mut words = arguments.get(1..).unwrap_or_default().iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            // What follows are the arguments of a program that the guest runs.
            _ if *word == "--" => break,
            Some((option, value)) if option.starts_with("--") => (option, value),
            _ => (*word, words.as_slice().first().copied().unwrap_or_default()),
        };
        if NAMES.contains(&option) {
            names.push(value);
        }
        if NAMES.contains(word) || FOR_KERNEL.contains(word) {
            words.next();
        }
    }
    match LIKE_QEMU.contains(&vmm) {
        // Later properties override earlier ones.
        true => names.into_iter().rev().find_map(guest),
        false => names.first().map(|name| (*name).to_owned()),
    }
}

/// Returns the value of `guest` from the properties of QEMU's `-name`. The first property may be the value alone, and a
/// comma in a value is doubled.
fn guest(properties: &str) -> Option<String> {
    let mut name = None;
    let mut rest = Some(properties);
    while let Some(property) = rest {
        let is_first = property.len() == properties.len();
        let (key, text) = match property.find(['=', ',']) {
            Some(at) if property[at..].starts_with('=') => (&property[..at], &property[at + 1..]),
            _ if is_first => ("guest", property),
            _ => ("", property),
        };
        let value;
        (value, rest) = value_and_rest(text);
        if key == "guest" {
            name = Some(value);
        }
    }
    name
}

/// Splits off the value up to the first comma that is not doubled, and returns the rest after that comma.
fn value_and_rest(text: &str) -> (String, Option<&str>) {
    let mut value = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(',') {
        value += before;
        match after.strip_prefix(',') {
            Some(after) => {
                value.push(',');
                rest = after;
            }
            None => return (value, Some(after)),
        }
    }
    (value + rest, None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(arguments: &str, expected: Option<&str>) {
        let words: Vec<&str> = arguments.split(' ').collect();
        assert_eq!(of(words[0], &words).as_deref(), expected, "{arguments}");
    }

    #[test]
    fn qemu_has_the_name_among_properties_in_any_order() {
        check("qemu -name web", Some("web"));
        check("qemu --name web,process=x", Some("web"));
        check("qemu -name guest=web,debug-threads=on", Some("web"));
        check("qemu -name debug-threads=on,guest=web", Some("web"));
        check("qemu -name process=guest,guest=web", Some("web"));
        check("qemu -name debug-threads=on", None);
        check("qemu -name process=x,web", None);
        check("stratovirt -machine microvm -name web", Some("web"));
        check("qemu -m 64", None);
        check("qemu -name", Some(""));
    }

    #[test]
    fn the_last_name_of_qemu_counts_and_properties_without_one_do_not() {
        check("qemu -name a -name guest=b", Some("b"));
        check("qemu -name a -name debug-threads=on", Some("a"));
    }

    #[test]
    fn a_comma_in_a_name_of_qemu_is_written_twice() {
        check("qemu -name a,,b", Some("a,b"));
        check("qemu -name guest=a,,b,debug-threads=on", Some("a,b"));
        check("qemu -name a,,,process=x", Some("a,"));
        check("qemu -name process=x,,guest=y,guest=a=b", Some("a=b"));
    }

    #[test]
    fn other_vmms_have_the_name_as_it_is() {
        check("firecracker --id=job-17 --api-sock s", Some("job-17"));
        check("firecracker --api-sock s --id job-17", Some("job-17"));
        check("crosvm run --name guest=a,b", Some("guest=a,b"));
        check("lkvm run --name web -c 2", Some("web"));
        check("cloud-hypervisor --disk path=a,id=b", None);
    }

    #[test]
    fn an_option_for_the_guest_is_no_name() {
        check("qemu -append --name=x -name web", Some("web"));
        check("qemu -append --name -m 64", None);
        check("qemu -append -name -name web", Some("web"));
        check("crosvm run -p --name=x vmlinux", None);
        check("crosvm run --params --name vmlinux", None);
        check("cloud-hypervisor --cmdline --id=7", None);
        check("cloud-hypervisor --cmdline=--id=7", None);
        check("lkvm sandbox -d a -- /init --name x", None);
    }

    proptest! {
        #[test]
        fn any_arguments_are_survived(words in prop::collection::vec("[-=,a仮]{0,6}|-name|--id|-append", 0..6)) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            of("qemu", &words);
            of("firecracker", &words);
        }

        #[test]
        fn any_name_of_qemu_is_read_as_it_was_written(name in "[-=,a仮 ]{1,9}") {
            let escaped = format!("debug-threads=on,guest={}", name.replace(',', ",,"));
            prop_assert_eq!(of("qemu", &["qemu", "-name", &escaped]), Some(name));
        }
    }
}
