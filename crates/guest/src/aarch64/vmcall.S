// Executes the CPU's hypercall instruction with the function PSCI_VERSION, which the kernel answers (Arm DEN 0022).
// x0 = parameters. Each time the vcpu is entered, the program does one run of COUNT operations.
    mov x19, x0
1:
    ldr x22, [x19, #{COUNT}]
    isb
    mrs x23, cntvct_el0
2:
    mov w0, #0x84000000
    hvc #0
    subs x22, x22, #1
    b.ne 2b
    isb
    mrs x9, cntvct_el0
    sub x9, x9, x23
    str x9, [x19, #{TICKS}]
    ldr x9, [x19, #{COUNT}]
    ldr x10, [x19, #{RINGS}]
    add x10, x10, x9
    str x10, [x19, #{RINGS}]
    mov x9, #{DONE_ADDRESS}
    str wzr, [x9]
    b 1b
