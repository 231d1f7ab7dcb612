-- Changes that no spec can or should notice, and why: lines as they are before and after (see spec/mutants.lua).
return {
}
