# Takes COUNT interrupts while it runs. Each time the vcpu is entered, it does one run.
20:
    mov rax, [rbx + {INTERRUPTS}]
    add rax, [rbx + {COUNT}]
    mov [rbx + {TARGET}], rax
    inc qword ptr [rbx + {READY}]
    sti
1:
    pause
    mov rax, [rbx + {INTERRUPTS}]
    cmp rax, [rbx + {TARGET}]
    jb 1b
    cli
    mov [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
# Writes to port ADDRESS, if it is not 0, to notify the device, and does the EOI.
30:
    mov rdx, [rbx + {ADDRESS}]
    test rdx, rdx
    jz 15b
    out dx, eax
    jmp 15b
