//! A virtqueue in guest memory: the driver on one thread, the device on another, without notifications. Each side
//! polls, the driver with a token that says which used buffers are new.

use std::error::Error;
use std::sync::Arc;
use std::thread;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_virtqueue::{
    Buffer, Chain, DeviceQueue, Features, SplitDevice, SplitDriver, SplitLayout,
};

// The type of this queue's tokens, which the compiler refuses for any other queue.
vmbell_virtqueue::queue_brand!(Requests);

/// The queue is at the beginning of RAM; requests and answers follow it.
const RAM: GuestAddress = GuestAddress(0x10_0000);
const REQUEST: GuestAddress = GuestAddress(0x10_8000);
const ANSWER: GuestAddress = GuestAddress(0x10_9000);
const QUEUE_SIZE: u16 = 8;

type Memory = Arc<GuestMemoryMmap>;
type Device = SplitDevice<Memory>;

/// The device's thread: answers `count` requests, each with its own bytes in upper case.
fn serve(memory: &Memory, mut device: Device, count: u32) -> Result<(), String> {
    let mut chain = Chain::with_capacity(QUEUE_SIZE.into());
    for _ in 0..count {
        let head = loop {
            // What the driver wrote is checked here; an error breaks the queue.
            match device.pop(&mut chain).map_err(|error| error.to_string())? {
                Some(head) => break head,
                None => thread::yield_now(),
            }
        };
        let (&[from], &[to]) = (chain.readable(), chain.writable()) else {
            return Err("a request has one readable and one writable buffer".into());
        };
        let mut bytes = vec![0; from.len.min(to.len) as usize];
        let copied = memory.read_slice(&mut bytes, GuestAddress(from.addr));
        bytes.make_ascii_uppercase();
        copied
            .and_then(|()| memory.write_slice(&bytes, GuestAddress(to.addr)))
            .map_err(|error| error.to_string())?;
        let len = from.len.min(to.len);
        device
            .add_used(head, len)
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The driver's thread: makes the requests one after the other, and returns the answers.
pub fn exchange(requests: &[&str]) -> Result<Vec<String>, Box<dyn Error>> {
    // In a VMM this is `Vm::memory`; this example has no guest.
    let memory: Memory = Arc::new(GuestMemoryMmap::from_ranges(&[(RAM, 1 << 20)])?);
    let layout = SplitLayout::contiguous(RAM.0, QUEUE_SIZE);
    let brand = Requests::take().ok_or("the process has this queue already")?;
    let mut driver = SplitDriver::new(&memory, &layout, Features::default(), brand)?;
    let device = SplitDevice::new(&memory, &layout, Features::default())?;
    let count = u32::try_from(requests.len())?;
    let mut answers = Vec::new();
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&memory, device, count));
        driver.disable_cb();
        for request in requests {
            memory.write_slice(request.as_bytes(), REQUEST)?;
            let len = u32::try_from(request.len())?;
            let (readable, writable) = (Buffer::new(REQUEST.0, len), Buffer::new(ANSWER.0, len));
            let token = driver.poller().token();
            driver.add(&[readable], &[writable], ())?;
            while !driver.poll(token) {
                if serving.is_finished() && !driver.poll(token) {
                    return Err("the device's thread ended early".into());
                }
                thread::yield_now();
            }
            let used = driver
                .get_used()?
                .ok_or("the token said that there is one")?;
            let mut answer = vec![0; used.len as usize];
            memory.read_slice(&mut answer, ANSWER)?;
            answers.push(String::from_utf8(answer)?);
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    Ok(answers)
}

/// Prints the answers.
pub fn main() -> Result<(), Box<dyn Error>> {
    println!("{:?}", exchange(&["look", "now"])?);
    Ok(())
}
