# The first part of every program that takes interrupts; the program's own code follows at label 20. rdi = parameters,
# rsi = index of the vcpu; rbx keeps the parameters, also in handlers. The handler begins at byte 16 and calls the
# program's own handler at label 30, which may change rax, rcx and rdx. At that label the interrupt's return address is
# at rsp + 40, above the call's return address, three registers and the vector.
    jmp 10f
    .balign 16
    push rax
    push rcx
    push rdx
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov [rbx + {ENTERED}], rax
    call 30f
    inc qword ptr [rbx + {INTERRUPTS}]
    pop rdx
    pop rcx
    pop rax
    # Drops the vector: all vectors are handled alike.
    add rsp, 8
    jmp qword ptr [rip + 1f]
1:
    .quad {INTERRUPT_RETURN}

# EOI for a program that decides between rcx and rdx whether to halt, with hlt right before rdx. If the interrupt came
# there, what the program has compared may be stale, so the handler returns to rdx, after hlt. rax points to the return
# address on the stack. Thus the program needs neither cli nor sti, which exit where they are emulated, nor the
# interrupt shadow of sti, which an emulating host may forget (docs/emulator-bugs.md).
16:
    cmp [rax], rcx
    jb 15f
    cmp [rax], rdx
    jae 15f
    mov [rax], rdx
# EOI: through the bit of the PV EOI word if there is a word and the bit is set, otherwise through the register.
15:
    mov rcx, [rbx + {PV_EOI}]
    test rcx, rcx
    jz 1f
    btr dword ptr [rcx], 0
    jnc 1f
    inc qword ptr [rbx + {SPARED}]
    ret
1:
    xor eax, eax
    cmp qword ptr [rbx + {XAPIC}], 0
    jne 2f
    xor edx, edx
    mov ecx, 0x80b
    wrmsr
    ret
2:
    mov ecx, 0xfee000b0
    mov [rcx], eax
    ret

# Sets up the local APIC, the PV EOI word, and the I/O APIC's pin if there is a redirection entry for it.
10:
    mov rbx, rdi
    cmp qword ptr [rbx + {XAPIC}], 0
    jne 1f
    mov ecx, 0x1b
    rdmsr
    or eax, 0xc00
    wrmsr
    mov eax, 0x1ff
    xor edx, edx
    mov ecx, 0x80f
    wrmsr
    jmp 2f
1:
    mov ecx, 0xfee000f0
    mov eax, 0x1ff
    mov [rcx], eax
2:
    # Each local APIC has its own PV EOI word; here only the first vcpu has one.
    test rsi, rsi
    jnz 20f
    mov rax, [rbx + {PV_EOI}]
    test rax, rax
    jz 3f
    mov rdx, rax
    shr rdx, 32
    or eax, 1
    mov ecx, 0x4b564d04
    wrmsr
3:
    mov edx, [rbx + {ROUTE}]
    test edx, edx
    jz 20f
    mov ecx, 0xfec00000
    mov eax, [rbx + {PIN}]
    lea eax, [rax + rax + 0x11]
    mov [rcx], eax
    xor eax, eax
    mov [rcx + 0x10], eax
    mov eax, [rbx + {PIN}]
    lea eax, [rax + rax + 0x10]
    mov [rcx], eax
    mov [rcx + 0x10], edx
    jmp 20f
