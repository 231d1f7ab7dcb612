--- Ops that a GPU has no kernel for, by the reason. What is asked to run there without one is an error that says so, or runs on
--- the host under soft placement. spec/device/gpu_ops_spec.lua reads the list: each op without a kernel is here, and none that has one.
local M = {
  { why = 'works on strings, files or the terminal', [[
    AsString AudioSummary AudioSummaryV2 DecodeRaw DeserializeManySparse DeserializeSparse HistogramSummary ImageSummary MergeSummary MergeV2Checkpoints PrintV2 ReduceJoin
    RestoreV2 SaveV2 ScalarSummary SerializeManySparse SerializeSparse ShardedFilename StaticRegexFullMatch StringFormat StringJoin
    StringLength StringLower StringSplit StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber
    StringUpper Substr TensorSummaryV2 WriteWholeFile ]] },
  { why = 'calls Lua, notes values for Lua, or is unknown', 'HostCall HostCallStateless Trace Unknown' },
  { why = 'a queue, a stack, a hash table, an accumulator, a staging area or an optional: the host holds it and callers wait there', [[
    AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep AccumulatorTakeGradient Barrier BarrierClose
    BarrierIncompleteSize BarrierInsertMany BarrierReadySize BarrierTakeMany ConditionalAccumulator ConsumeMutexLock MutexLock MutexV2
    SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator
    FIFOQueue FIFOQueueV2 HashTable HashTableV2 InitializeTable InitializeTableV2 LookupTableExport LookupTableExportV2
    LookupTableFilled LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2 LookupTableInsert LookupTableInsertV2
    LookupTableRemoveV2 LookupTableSize LookupTableSizeV2 MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
    MutableHashTableOfTensorsV2 MutableHashTableV2 OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone PaddingFIFOQueue
    PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 QueueClear QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany
    QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2
    QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 QueuePeek QueueReplace QueueSize QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2
    ResourceAccumulatorApplyGradient ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep
    ResourceAccumulatorTakeGradient ResourceConditionalAccumulator Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush
    StackPushV2 StackV2 Stage StageClear StagePeek StageSize Unstage ]] },
  { why = 'TensorFlow\'s own arrays and lists in imported graphs, whose elements the host holds', [[
    EmptyTensorList RaggedTensorFromVariant RaggedTensorToVariant TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcatV2
    TensorArrayConcatV3 TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayGradV2 TensorArrayGradV3 TensorArrayGradWithShape
    TensorArrayReadV2 TensorArrayReadV3 TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySizeV2 TensorArraySizeV3
    TensorArraySplitV2 TensorArraySplitV3 TensorArrayV2 TensorArrayV3 TensorArrayWriteV2 TensorArrayWriteV3 TensorListConcat
    TensorListConcatLists TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather TensorListGatherGrad
    TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize
    TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack ]] },
  { why = 'variables of TensorFlow 1 that are passed by reference, read by the host at the moment they are used', [[
    ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign ApplyCenteredRMSProp ApplyFtrl
    ApplyFtrlV2 ApplyGradientDescent ApplyMomentum ApplyPowerSign ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp
    Assign AssignAdd AssignSub CountUpTo DestroyTemporaryVariable IsVariableInitialized ReadReferenceSaved RefIdentity RefSelect
    ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate
    SparseApplyAdadelta SparseApplyAdagrad SparseApplyAdagradDA SparseApplyAdagradV2 SparseApplyCenteredRMSProp SparseApplyFtrl
    SparseApplyFtrlV2 SparseApplyMomentum SparseApplyProximalAdagrad SparseApplyProximalGradientDescent SparseApplyRMSProp
    StridedSliceAssign TemporaryVariable Variable VariableV2 ]] },
  { why = 'shapes, handles and counts, which lie on the host', [[
    BroadcastArgs BroadcastGradientArgs ConcatOffset DestroyResourceOp DisableCopyOnRead GatherHandle InvertPermutation PackHandles
    PlaceholderWithDefault RaggedRange ReducedCount ReducedShape ResourceCountUpTo ToBool ]] },
  { why = 'how much it gives depends on the values', [[
    ComputeAccidentalHits DenseToDenseSetOperation DenseToSparseSetOperation NonMaxSuppression NonMaxSuppressionV2
    NonMaxSuppressionV3 NonMaxSuppressionV4 RaggedGather SetSize SparseToSparseSetOperation UniqueV2
    UniqueWithCountsV2 ]] },
  { why = 'numbers in few bits, which are for machines without a GPU', 'Dequantize QuantizeV2 QuantizedMatMul' },
  { why = 'complex numbers', 'Angle Complex ComplexAbs Conj ConjugateTranspose FFT FFT2D IFFT IFFT2D IRFFT IRFFTGrad Imag RFFT RFFTGrad Real' },
  { why = 'factorisations: LAPACK\'s, on the host', [[
    Cholesky LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve MatrixTriangularSolve Qr SelfAdjointEigV2 Svd
    TridiagonalSolve ]] },
  { why = 'draws one after the other from a generator', [[
    AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler LogUniformCandidateSampler Multinomial
    ParameterizedTruncatedNormal RandomGamma RandomPoissonV2 RandomShuffle ThreadUnsafeUnigramCandidateSampler
    UniformCandidateSampler ]] },
  { why = 'TensorFlow\'s bits, which its samplers for the host draw one after the other', [[
    RandomIndexShuffle StatelessMultinomial StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3
    StatelessRandomPoisson ]] },
  { why = 'which generator, and its key and counter, are asked for once', 'StatelessRandomGetAlg StatelessRandomGetKeyCounter' },
  { why = 'values that a function which calls itself saved for its gradient', 'FunctionAdd FunctionLoad FunctionSave FunctionTape' },
}
return M
