# dflow: completion for bash
_dflow() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  case $before in
    -e) return ;;
    -l) COMPREPLY=($(compgen -W 'dflow' -- "$word")); return ;;
  esac
  case ${COMP_WORDS[1]} in
    run | inspect)
      if [[ $COMP_CWORD -gt 1 ]]; then
        local options='--help'
        [[ ${COMP_WORDS[1]} = run ]] && options='--feed --fetch --signature --init --out --repeat --threads --timeout --device --trace --help'
        [[ ${COMP_WORDS[1]} = inspect ]] && options='--ops --nodes --let --help'
        if [[ $word = -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi
        return
      fi ;;
    manual) [[ $COMP_CWORD -gt 1 ]] && { COMPREPLY=($(compgen -W 'nn rnn train data checkpoints summaries linear functions queues' -- "$word")); return; } ;;
    learn) [[ $COMP_CWORD -gt 1 && $word = -* ]] && { COMPREPLY=($(compgen -W '--notebooks --help' -- "$word")); return; } ;;
  esac
  if [[ $word = --color=* || ( $before = '=' && ${COMP_WORDS[COMP_CWORD-2]} = --color ) ]]; then
    COMPREPLY=($(compgen -W 'auto always never' -- "${word#*=}"))
  elif [[ $word = -* ]]; then
    COMPREPLY=($(compgen -W '-e -i -l -n -v -p -E -W -- - --help --version --autograph --hosts= --spmd --restarts --check --check-gradients --strict --dap --kernel --resume --color=' -- "$word"))
    [[ ${COMPREPLY[0]} = --color= ]] && compopt -o nospace
  else
    COMPREPLY=($(compgen -f -X '!*.lua' -- "$word") $(compgen -d -- "$word"))
    [[ $COMP_CWORD -eq 1 ]] && COMPREPLY+=($(compgen -W 'run inspect learn manual' -- "$word"))
  fi
}
complete -o filenames -F _dflow dflow dflow-repl
