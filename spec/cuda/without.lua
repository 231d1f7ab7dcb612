--- Ops that a GPU has no kernel for, by the reason. What is asked to run there without one is an error that says so, or runs on
--- the host under soft placement. spec/device/gpu_ops_spec.lua reads the list: each op without a kernel is here, and none that has one.
local M = {
  { why = 'works on strings, files or the terminal', [[
    AsString AudioSummary AudioSummaryV2 DecodeBase64 DecodeCSV DecodeImage DecodeJpeg DecodePng DecodeRaw DeserializeManySparse DeserializeSparse EncodeBase64 HistogramSummary ImageSummary MergeSummary MatchingFiles MergeV2Checkpoints ParseExample ParseExampleV2 ParseSingleExample PrintV2 ReadFile ReduceJoin UnsortedSegmentJoin
    RestoreV2 SaveV2 ScalarSummary SerializeManySparse SerializeSparse ShardedFilename RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace StringFormat StringJoin
    StringLength StringLower StringNGrams StringSplit StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong StringToNumber
    RaggedCross SparseCross SparseCrossV2 StringUpper Substr TensorSummaryV2 UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode WriteFile WriteWholeFile ]] },
  { why = 'calls Lua, notes values for Lua, or is unknown', 'HostCall HostCallStateless Trace Unknown' },
  { why = 'a queue, a stack, a hash table, an accumulator, a staging area or an optional: the host holds it and callers wait there', [[
    AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep AccumulatorTakeGradient Barrier BarrierClose
    BarrierIncompleteSize BarrierInsertMany BarrierReadySize BarrierTakeMany ConditionalAccumulator ConsumeMutexLock MutexLock MutexV2
    SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient SparseConditionalAccumulator
    FIFOQueue FIFOQueueV2 HashTable HashTableV2 InitializeTable InitializeTableFromTextFile InitializeTableFromTextFileV2 InitializeTableV2 LookupTableExport LookupTableExportV2
    LookupTableFilled LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2 LookupTableInsert LookupTableInsertV2
    LookupTableRemoveV2 LookupTableSize LookupTableSizeV2 MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
    MutableHashTableOfTensorsV2 MutableHashTableV2 OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone PaddingFIFOQueue
    PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 QueueClear QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany
    QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2
    QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 QueuePeek QueueReplace QueueSize QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2
    ResourceAccumulatorApplyGradient ResourceAccumulatorNumAccumulated ResourceAccumulatorSetGlobalStep
    ResourceAccumulatorTakeGradient ResourceConditionalAccumulator Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush
    StackPushV2 StackV2 Stage StageClear StagePeek StageSize Unstage ]] },
  { why = 'an array of ragged tensors, whose rows the host cuts', 'RaggedTensorFromVariant RaggedTensorToVariant' },
  { why = 'rows of any length, whose splits the host looks through', 'RaggedBincount RaggedTensorToSparse RaggedTensorToTensor' },
  { why = 'bins for the features of a model, which come as words and numbers of the host', 'Bucketize DenseBincount SparseBincount' },
  { why = 'a counter that the host counts, as TensorFlow has it', 'CountUpTo' },
  { why = 'shapes, handles and counts, which lie on the host', [[
    BroadcastArgs BroadcastGradientArgs ConcatOffset DestroyResourceOp DisableCopyOnRead GatherHandle InvertPermutation PackHandles
    PlaceholderWithDefault RaggedRange ReducedCount ReducedShape ResourceCountUpTo ToBool ]] },
  { why = 'how much it gives depends on the values', [[
    CTCBeamSearchDecoder CTCGreedyDecoder ComputeAccidentalHits DenseToDenseSetOperation DenseToSparseSetOperation EditDistance
    NonMaxSuppressionV5 CombinedNonMaxSuppression RaggedGather SetSize SparseToSparseSetOperation UniqueV2 UniqueWithCountsV2 ]] },
  { why = 'numbers in few bits, which are for machines without a GPU', 'Dequantize QuantizeV2 QuantizedMatMul QuantizedAvgPool QuantizedBiasAdd QuantizedConcat QuantizedConv2D' ..
    ' QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize QuantizedConv2DWithBiasAndReluAndRequantize' ..
    ' QuantizedConv2DWithBiasAndRequantize QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndReluAndRequantize' ..
    ' QuantizedMatMulWithBiasAndRequantize QuantizedMaxPool QuantizedRelu QuantizedRelu6 QuantizedReshape' ..
    ' QuantizeDownAndShrinkRange Requantize RequantizationRange QuantizeAndDequantizeV2 QuantizeAndDequantizeV3' ..
    ' QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad' },
  { why = 'a sparse tensor\'s indices, which the host looks through', [[
    SparseAdd SparseAddGrad SparseConcat SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows
    SparseFillEmptyRowsGrad SparseReduceMax SparseReduceSum SparseReorder SparseReshape SparseSlice SparseSliceGrad SparseSoftmax
    SparseSparseMaximum
    SparseSparseMinimum SparseSplit
    SparseTensorDenseAdd SparseTensorDenseMatMul ]] },
  { why = 'pieces of images in words of TensorFlow alone', 'ExtractImagePatches MaxPoolWithArgmax MaxPoolGradWithArgmax Dilation2D' ..
    ' Dilation2DBackpropInput Dilation2DBackpropFilter' },
  { why = 'pictures below a kernel that is asked for by its name, made ready on the host', 'ScaleAndTranslate ScaleAndTranslateGrad' },
  { why = 'one matrix after the other on the host, with the order of its rows', 'Lu' },
  { why = 'series and continued fractions in double precision, which no GPU is asked for', [[
    BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Betainc Dawsn Expint
    FresnelCos FresnelSin Igamma Igammac IgammaGradA Spence ]] },
  { why = 'volumes: the host computes them, as the kernels for images here are of two axes', [[
    AvgPool3D AvgPool3DGrad Conv3D Conv3DBackpropFilterV2 Conv3DBackpropInputV2 MaxPool3D MaxPool3DGrad MaxPool3DGradGrad ]] },
  { why = 'draws one after the other from a generator', [[
    AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler LogUniformCandidateSampler
    ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler ]] },
  { why = 'TensorFlow\'s bits, which its samplers for the host draw one after the other', [[
    RandomIndexShuffle ]] },
  { why = 'which generator, and its key and counter, are asked for once', 'StatelessRandomGetAlg StatelessRandomGetKeyCounter' },
  { why = 'values that a function which calls itself saved for its gradient', 'FunctionAdd FunctionLoad FunctionSave FunctionTape' },
}
return M
