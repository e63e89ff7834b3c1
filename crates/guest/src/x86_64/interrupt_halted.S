# Takes COUNT interrupts, each while it is halted; if ADDRESS is not 0, it asks for each by a write to port
# ADDRESS. Each time the vcpu is entered, it does one run. Interrupts stay enabled: if one comes between the
# comparison and hlt, the handler returns to the instruction after hlt.
20:
    mov rax, [rbx + {INTERRUPTS}]
    add rax, [rbx + {COUNT}]
    mov [rbx + {TARGET}], rax
    inc qword ptr [rbx + {READY}]
    sti
50:
    mov rax, [rbx + {INTERRUPTS}]
    cmp rax, [rbx + {TARGET}]
    jae 3f
    mov rdx, [rbx + {ADDRESS}]
    test rdx, rdx
    jz 2f
    # Interrupts are off until hlt begins, so the interrupt always comes during the halt, however soon it is raised.
    cli
    out dx, eax
    sti
2:
    hlt
51:
    jmp 50b
3:
    mov [rbx + {RINGS}], rax
    cli
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
30:
    lea rax, [rsp + 40]
    lea rcx, [rip + 50b]
    lea rdx, [rip + 51b]
    jmp 16b
