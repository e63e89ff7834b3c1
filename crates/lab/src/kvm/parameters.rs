//! Parameters of KVM's modules: which module a parameter belongs to, and whether that module has it.
//!
//! The names of a module's parameters are in its `.modinfo` section. The loader in L1 passes each parameter of the
//! kernel's command line that begins with a module's name to that module.

use std::fmt;
use std::str::FromStr;

use crate::board::{CpuVendor, LabBoard};
use crate::error::{LabError, failed};
use crate::kernel::ModuleTree;
use crate::prepare::LabKernel;

/// The module of KVM that all CPUs share.
pub(crate) const SHARED_MODULE: &str = "kvm";
/// The modules that can have parameters.
const ALL: [&str; 3] = [SHARED_MODULE, "kvm_amd", "kvm_intel"];

/// A parameter of one of KVM's modules, as a user writes it: `NAME=VALUE` or `MODULE.NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvmParameter {
    /// The module that the user names. If `None`, the parameter may belong to the CPU's module (`kvm_intel`, `kvm_amd`)
    /// or to `kvm`, which all CPUs share.
    module: Option<&'static str>,
    name: String,
    value: String,
}

impl FromStr for KvmParameter {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let form = || {
            failed!("'{text}' is neither NAME=VALUE nor MODULE.NAME=VALUE")
                .hint("write enable_apicv=0 or kvm_intel.enable_apicv=0")
        };
        let (whole, value) = text.split_once('=').ok_or_else(form)?;
        let (module, name) = match whole.split_once('.') {
            None => (None, whole),
            Some((module, name)) => {
                let plain = module.replace('-', "_");
                let known = ALL.into_iter().find(|known| *known == plain);
                let known = known.ok_or_else(|| {
                    failed!("'{module}' is not one of KVM's modules: {}", ALL.join(", "))
                })?;
                (Some(known), name)
            }
        };
        let is_word = |text: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !text.is_empty() && text.chars().all(is_part)
        };
        if !is_word(name) || !is_word(value) {
            return Err(form());
        }
        Ok(Self {
            module,
            // As in the kernel, a hyphen in a name is an underscore.
            name: name.replace('-', "_"),
            value: value.to_owned(),
        })
    }
}

impl fmt::Display for KvmParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(module) = self.module {
            write!(f, "{module}.")?;
        }
        write!(f, "{}={}", self.name, self.value)
    }
}

impl KvmParameter {
    /// Returns whether KVM on this board loads the module that the user names.
    pub fn is_for(&self, board: &LabBoard) -> bool {
        let own = [Some(SHARED_MODULE), board.vendor.map(CpuVendor::module)];
        self.module.is_none_or(|module| own.contains(&Some(module)))
    }

    /// Returns the kernel parameter, such as `kvm_intel.enable_apicv=0`. `modules` are those that may have the
    /// parameter, best first, each with the names of its parameters.
    fn on_command_line(
        &self,
        modules: &[(&str, Vec<String>)],
        release: &str,
    ) -> Result<String, LabError> {
        let mut own = modules
            .iter()
            .filter(|(module, _)| self.module.is_none_or(|named| named == *module));
        if let Some((module, _)) = own.clone().find(|(_, names)| names.contains(&self.name)) {
            return Ok(format!("{module}.{}={}", self.name, self.value));
        }
        let lists = own.clone();
        let lists = lists.map(|(module, names)| format!("{module} has {}", names.join(", ")));
        let lists: Vec<String> = lists.collect();
        let who = match own.next_back() {
            Some((module, _)) if lists.len() == 1 => format!("{module} has no such parameter"),
            _ => {
                let names = modules.iter().map(|(module, _)| *module);
                let names: Vec<&str> = names.collect();
                format!("{} have no such parameter", names.join(" and "))
            }
        };
        Err(failed!(
            "--kvm-param {self}: in Linux {release}, {who}; {}",
            lists.join("; ")
        ))
    }
}

/// Returns the kernel parameters for those of `wanted` that are for this board. Fails if the kernel's modules do not
/// have one of them.
pub fn kvm_parameters(
    wanted: &[KvmParameter],
    board: &LabBoard,
    kernel: &LabKernel,
) -> Result<Vec<String>, LabError> {
    let mut wanted = wanted
        .iter()
        .filter(|parameter| parameter.is_for(board))
        .peekable();
    let Some(first) = wanted.peek() else {
        return Ok(Vec::new());
    };
    let builtin = || {
        failed!("--kvm-param {first}: this kernel has KVM built in, so it does not list KVM's parameters")
            .hint("--append MODULE.NAME=VALUE sets one without a check")
    };
    let (Some(vendor), Some(folder)) = (board.vendor, &kernel.modules) else {
        return Err(builtin());
    };
    let tree = ModuleTree::open(folder, kernel.release())?;
    let names = |module| {
        let names = tree.parameters(module)?.ok_or_else(builtin)?;
        Ok((module, names))
    };
    let modules = [names(vendor.module())?, names(SHARED_MODULE)?];
    wanted
        .map(|parameter| parameter.on_command_line(&modules, kernel.release()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{AARCH64, X86_64, X86_64_VMX};

    fn parse(text: &str) -> Result<KvmParameter, String> {
        text.parse().map_err(|error: LabError| error.to_string())
    }

    #[test]
    fn a_parameter_has_a_name_a_value_and_perhaps_a_module() {
        for text in ["avic=1", "kvm_intel.ple_gap=0", "kvm.nx_huge_pages=never"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for (text, plain) in [
            ("kvm-amd.npt=0", "kvm_amd.npt=0"),
            ("enable-apicv=0", "enable_apicv=0"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), plain);
        }
        for text in ["avic", "=1", "avic=", "a b=1", "kvm.=1", "avic=1 panic=1"] {
            let said = parse(text).unwrap_err();
            let begin = format!("'{text}' is neither NAME=VALUE nor MODULE.NAME=VALUE: ");
            assert!(said.starts_with(&begin), "{said}");
        }
        let said = parse("kvm_arm.mode=nested").unwrap_err();
        let modules = "'kvm_arm' is not one of KVM's modules: kvm, kvm_amd, kvm_intel";
        assert_eq!(said, modules);
    }

    #[test]
    fn a_named_module_is_only_for_the_cpus_that_load_it() {
        let is_for = |text: &str| {
            let parameter = parse(text).unwrap();
            [X86_64, X86_64_VMX, AARCH64].map(|board| parameter.is_for(&board))
        };
        assert_eq!(is_for("kvm_amd.avic=1"), [true, false, false]);
        assert_eq!(is_for("kvm_intel.ept=0"), [false, true, false]);
        assert_eq!(is_for("kvm.halt_poll_ns=0"), [true; 3]);
        assert_eq!(is_for("nested=0"), [true; 3]);
    }

    #[test]
    fn the_cpus_module_is_asked_first_and_an_unknown_name_gets_the_lists() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let modules = [
            ("kvm_intel", names(&["ept", "both"])),
            ("kvm", names(&["halt_poll_ns", "both"])),
        ];
        let line = |text: &str| {
            let line = parse(text).unwrap().on_command_line(&modules, "6.12");
            line.map_err(|error| error.to_string())
        };
        assert_eq!(line("ept=0").unwrap(), "kvm_intel.ept=0");
        assert_eq!(line("both=0").unwrap(), "kvm_intel.both=0");
        assert_eq!(line("kvm.both=0").unwrap(), "kvm.both=0");
        assert_eq!(line("halt_poll_ns=0").unwrap(), "kvm.halt_poll_ns=0");
        assert_eq!(
            line("avic=1").unwrap_err(),
            "--kvm-param avic=1: in Linux 6.12, kvm_intel and kvm have no such parameter; \
             kvm_intel has ept, both; kvm has halt_poll_ns, both"
        );
        assert_eq!(
            line("kvm.ept=1").unwrap_err(),
            "--kvm-param kvm.ept=1: in Linux 6.12, kvm has no such parameter; kvm has halt_poll_ns, both"
        );
    }
}
