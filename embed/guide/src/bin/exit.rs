use anyhow::Result;
use my_vmm::{create, open, run};

vmbell_guest::guest_programs! {
    guest = "exit.S";
}

fn main() -> Result<()> {
    let (_vm, mut vcpu) = create(&*open()?, guest())?;
    run(&mut *vcpu)
}
