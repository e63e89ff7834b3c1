# Drives QEMU's edu at ADDRESS, after interrupt_head.S: raises its interrupt COUNT times, each time after the previous
# interrupt is done. The handler acknowledges what the device reports. SERVED counts interrupts that had a reason,
# ANSWERED interrupts without a reason. When the target is reached, it says done with the device's identity; the host
# may lower the target and interrupt. No cli and sti: see interrupt_head.S.
20:
    mov rax, [rbx + {SERVED}]
    add rax, [rbx + {COUNT}]
    mov [rbx + {TARGET}], rax
    inc qword ptr [rbx + {READY}]
    sti
50:
    mov rax, [rbx + {SERVED}]
    cmp rax, [rbx + {TARGET}]
    jae 3f
    mov rcx, [rbx + {ADDRESS}]
    mov dword ptr [rcx + 0x60], 1
51:
    cmp rax, [rbx + {SERVED}]
    jne 50b
    cmp rax, [rbx + {TARGET}]
    jae 3f
    hlt
52:
    jmp 51b
3:
    mov rcx, [rbx + {ADDRESS}]
    mov eax, [rcx]
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 20b
30:
    mov rcx, [rbx + {ADDRESS}]
    mov eax, [rcx + 0x24]
    test eax, eax
    jz 31f
    mov [rcx + 0x64], eax
    inc qword ptr [rbx + {SERVED}]
    jmp 32f
31:
    inc qword ptr [rbx + {ANSWERED}]
32:
    lea rax, [rsp + 40]
    lea rcx, [rip + 51b]
    lea rdx, [rip + 52b]
    jmp 16b
